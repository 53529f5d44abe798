"""A broker in the test's own process that answers what a scene says, and the table of errors made with it.

`broker` is a Kafka broker over a real socket, small enough to read: it serves one consumer per group, of
aiokafka 0.10 to 0.14 or kafka-python 3, and holds a model of each group (`model.Group`). A group's `answer`
replaces the answer to one request, or to more, by anything:

    async with ScriptedBroker() as broker:                       # or: with broker_in_thread() as broker
        group = broker.group("g", {"orders": 4})                 # the client_id of the consumer is "g", too
        group.answer("Heartbeat", Code(27))                      # the next one, then as usual
        group.answer("JoinGroup", Held(released), times=2)       # `released` is an asyncio.Event
        group.answer("OffsetCommit", Never(), when=lambda request: request.body.generation_id == 3)
        consumer = CooperativeAIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap, client_id="g",
                                               group_id="g")
        ...
        await group.until(lambda: group.sent("JoinGroup"))       # also: group.wait_until in another thread
        group.begin_rebalance()                                  # heartbeats are answered 27 from now on

Requests are recorded in `group.requests`, with the body decoded by kafka-python's own schemas.
"""
