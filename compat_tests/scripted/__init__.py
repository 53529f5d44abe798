"""A scripted broker in the test's process, and the table of errors that is tested with it.

`broker` is a small Kafka broker on a real socket. It serves one consumer per group, of aiokafka 0.10 to 0.14
or kafka-python 3, and holds a model of each group (`model.Group`). A group's `answer` replaces the response
to one or more requests:

    async with ScriptedBroker() as broker:                       # or: with broker_in_thread() as broker
        group = broker.group("g", {"orders": 4})                 # the consumer's client_id is also "g"
        group.answer("Heartbeat", Code(27))                      # only the next one
        group.answer("JoinGroup", Held(released), times=2)       # `released` is an asyncio.Event
        group.answer("OffsetCommit", Never(), when=lambda request: request.body.generation_id == 3)
        consumer = CooperativeAIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap, client_id="g",
                                               group_id="g")
        ...
        await group.until(lambda: group.sent("JoinGroup"))       # from another thread: group.wait_until
        group.begin_rebalance()                                  # heartbeats now get error 27

`group.requests` records the requests, with bodies decoded by kafka-python's schemas.
"""
