"""Java for the tests and the recorder: the class path (resolved by Maven), compiled sources, command lines.

Results are cached in `.cache/jvm` at the root of the repository, under a name with a digest of their inputs.
The jars stay in Maven's local repository. Concurrent processes wait for each other, because Maven 3 does not
lock its local repository. A file enters the cache by renaming, so it is always complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from compat_tests.support.hang_limit import HANG_S

MINIMUM_JAVA = 17
"""The minimum for brokers of Kafka 4."""

_ROOT = Path(__file__).resolve().parents[2]
_JAVA_DIR = _ROOT / "compat_tests" / "java"
_POM = _JAVA_DIR / "pom.xml"
_SOURCES = _JAVA_DIR / "src"
_LOG4J = _JAVA_DIR / "log4j2.properties"
_CACHE = _ROOT / ".cache" / "jvm"

_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_MAVEN_TIMEOUT_S = 600
_JAVAC_TIMEOUT_S = HANG_S


class JvmError(RuntimeError):
    """Java or Maven is missing, too old or has failed; the message says which, and what to do."""


def kafka_version() -> str:
    """The release of the brokers: the environment variable KAFKA_VERSION, else the version in the pom."""
    if wanted := os.environ.get("KAFKA_VERSION"):
        return wanted
    named = re.search(r"<kafka\.version>(.+)</kafka\.version>", _POM.read_text(encoding="utf-8"))
    if named is None:
        raise JvmError(f"{_POM} names no kafka.version")
    return named[1]


def classpath(kafka: str | None = None, pom: Path = _POM) -> str:
    """The jars of `pom`, `compat_tests/java/pom.xml` by default, as one string for `java -cp`.

    The first call asks Maven, which takes seconds, or half a minute if it has to download the jars. Later
    calls, of any process, read the result from the cache.

    Args:
        kafka: another release of Kafka than the pom names, such as "3.9.2".
        pom: the Maven project whose runtime dependencies are resolved.

    Raises:
        JvmError: Maven is missing, or cannot resolve the pom.
    """
    made_of = (pom.read_text(encoding="utf-8"), kafka or "")
    found = cached("classpath", ".txt", made_of, lambda file: _resolve(file, kafka, pom))
    path = found.read_text(encoding="utf-8")
    if all(map(os.path.exists, path.split(os.pathsep))):
        return path
    # The local repository of Maven was emptied.
    found.unlink(missing_ok=True)
    return classpath(kafka, pom)


def compile_java() -> Path:
    """Compile `compat_tests/java/src` if a source or the class path changed; returns the classes' folder.

    Raises:
        JvmError: there is no Java compiler of version 17 or later, or a source does not compile.
    """
    path = classpath()
    sources = sorted(_SOURCES.rglob("*.java"))

    def compile_to(classes: Path) -> None:
        javac = java_home_binary("javac")
        command = [javac, "--release", str(MINIMUM_JAVA), "-Xlint:all", "-cp", path, "-d", str(classes)]
        _run([*command, *map(str, sources)], "javac failed", _JAVAC_TIMEOUT_S)

    contents = (part for source in sources for part in (source.name, source.read_text(encoding="utf-8")))
    return cached("classes", "", (path, *contents), compile_to)


def java_command(
    main_class: str,
    *args: object,
    heap: str = "256m",
    classes: Path | None = None,
    log_level: str = "WARN",
    options: Sequence[str] = (),
    kafka: str | None = None,
) -> list[str]:
    """The command that runs a class of the class path, or of `classes` (see `compile_java`), in a small JVM.

    Args:
        main_class: the full name of the class.
        args: its arguments, turned into strings.
        heap: the maximum size of the heap, in Java's notation.
        classes: a folder that comes before the jars on the class path.
        log_level: the level of Log4j, which logs to standard error.
        options: more options for the JVM.
        kafka: the release of Kafka to run; that of the pom by default.
    """
    jars = classpath(kafka)
    path = jars if classes is None else f"{classes}{os.pathsep}{jars}"
    return [
        _checked_java(),
        f"-Xmx{heap}",
        # Several short-lived JVMs share few cores, so each starts fast and has few threads.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={_LOG4J}",
        f"-Dlog.level={log_level}",
        *options,
        "-cp",
        path,
        main_class,
        *map(str, args),
    ]


def cached(name: str, ending: str, made_of: Sequence[str], make: Callable[[Path], None]) -> Path:
    """A file or folder of the cache. If it does not exist, `make` writes it, or writes nothing."""
    digest = hashlib.sha256()
    for part in map(str.encode, made_of):
        digest.update(len(part).to_bytes(8, "big") + part)
    target = _CACHE / f"{name}-{digest.hexdigest()[:16]}{ending}"
    if not target.exists():
        with _locked(name):
            if not target.exists():
                with tempfile.TemporaryDirectory(dir=_CACHE, prefix=f"{name}-") as temporary:
                    made = Path(temporary) / f"{name}{ending}"
                    make(made)
                    if made.exists():
                        made.rename(target)
    return target


def java_home_binary(name: str) -> str:
    """The path of `java`, `javac` and so on: in JAVA_HOME if it is set, else the first on the PATH.

    Raises:
        JvmError: the program is not there.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin")) if home else shutil.which(name)
    if found is None:
        where = f"JAVA_HOME ({home})" if home else "the PATH"
        raise JvmError(
            f"no {name} in {where}: install a JDK {MINIMUM_JAVA} or later, or set JAVA_HOME to one"
        )
    return found


@functools.cache
def _checked_java() -> str:
    java = java_home_binary("java")
    output = _run([java, "-version"], f"{java} -version failed", 60)
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None or int(version[1]) < MINIMUM_JAVA:
        found = output.splitlines()[0] if output else "no answer"
        raise JvmError(
            f"Java {MINIMUM_JAVA} or later is needed, {java} is: {found}; set JAVA_HOME to a later one"
        )
    return java


def _resolve(file: Path, kafka: str | None, pom: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JvmError("no mvn in the PATH: Maven fetches the jars; install Maven 3.6 or later")
    _checked_java()
    command = [maven, "--batch-mode", "--quiet", "--no-transfer-progress", "--file", str(pom)]
    goal = [f"{_DEPENDENCY_PLUGIN}:build-classpath", "-DincludeScope=runtime", f"-Dmdep.outputFile={file}"]
    other = [] if kafka is None else [f"-Dkafka.version={kafka}"]
    what = pom if kafka is None else f"{pom} for Kafka {kafka}"
    _run([*command, *goal, *other], f"Maven could not resolve {what}", _MAVEN_TIMEOUT_S)
    file.write_text(file.read_text(encoding="utf-8").strip(), encoding="utf-8")


def _run(command: Sequence[str], what_failed: str, timeout_s: float) -> str:
    """Run a command, and return its standard output and error.

    Raises:
        JvmError: the command exited with another code than 0, or took longer than `timeout_s` seconds.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise JvmError(f"{what_failed}: no end after {timeout_s:g} s") from None
    if done.returncode:
        raise JvmError(f"{what_failed} (exit code {done.returncode}):\n{done.stdout[-4000:].strip()}")
    return done.stdout


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    """Hold a lock of all processes; the operating system frees the lock of a process that dies."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    with open(_CACHE / f"{name}.lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
