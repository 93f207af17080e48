"""A server and a client of gRPC by grpcio, for tests/it/real_grpc.rs.

usage: calls.py serve             prints its port, and ends with its standard input
       calls.py call HOST:PORT [CA]   makes one call of each kind, and prints what came of them
"""
import sys, threading, time
from concurrent import futures

import grpc


def echo(request, context):
    sent = dict(context.invocation_metadata())
    context.send_initial_metadata((("x-early", "1"),))
    context.set_trailing_metadata((("x-late", sent.get("x-sent", "")),))
    return request


def count(request, context):
    for number in range(int(request)):
        yield b"%d" % number


def total(requests, context):
    return b"%d" % sum(int(request) for request in requests)


def chat(requests, context):
    for request in requests:
        yield request.upper()


def sleep(request, context):
    ended = threading.Event()
    context.add_callback(ended.set)
    ended.wait(10)
    return b"late"


def refuse(request, context):
    context.set_trailing_metadata((("x-why", "because"),))
    context.abort(grpc.StatusCode.NOT_FOUND, "there is no such thing: 100 % sure")


def serve():
    handlers = grpc.method_handlers_generic_handler("test.Calls", {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Total": grpc.stream_unary_rpc_method_handler(total),
        "Chat": grpc.stream_stream_rpc_method_handler(chat),
        "Sleep": grpc.unary_unary_rpc_method_handler(sleep),
        "Refuse": grpc.unary_unary_rpc_method_handler(refuse),
    })
    server = grpc.server(futures.ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((handlers,))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(None)


def outcome(make):
    try:
        return make()
    except grpc.RpcError as error:
        late = [pair for pair in error.trailing_metadata() or () if pair[0].startswith("x-")]
        return f"{error.code().name}: {error.details()} {late}"


def talk(channel):
    """Each message is answered before the next one is sent."""
    answered = threading.Semaphore(1)

    def messages():
        for text in (b"one", b"two", b"three"):
            answered.acquire()
            yield text

    answers = []
    for answer in channel.stream_stream("/test.Calls/Chat")(messages(), timeout=5):
        answers.append(answer.decode())
        answered.release()
    return answers


def echoed(channel, request):
    response, call = channel.unary_unary("/test.Calls/Echo").with_call(request, timeout=5, metadata=(("x-sent", "2"),))
    metadata = [pair for pair in (*call.initial_metadata(), *call.trailing_metadata()) if pair[0].startswith("x-")]
    return len(response), response == request, [tuple(pair) for pair in metadata], call.code().name


def call(address, authority):
    # Proxies of the environment are for others.
    options = (("grpc.enable_http_proxy", 0),)
    if authority:
        with open(authority, "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        options += (("grpc.ssl_target_name_override", "localhost"),)
        channel = grpc.secure_channel(address, credentials, options)
    else:
        channel = grpc.insecure_channel(address, options)
    unary = lambda method, **more: channel.unary_unary(f"/test.Calls/{method}")(b"x", **{"timeout": 5, **more})
    calls = {
        "unary": lambda: echoed(channel, b"hello"),
        "empty": lambda: echoed(channel, b""),
        "large": lambda: echoed(channel, bytes(300_000)),
        "stream of answers": lambda: [n.decode() for n in channel.unary_stream("/test.Calls/Count")(b"20", timeout=5)],
        "stream of requests": lambda: channel.stream_unary("/test.Calls/Total")(iter([b"%d" % n for n in range(20)]), timeout=5),
        "both": lambda: talk(channel),
        "deadline": lambda: unary("Sleep", timeout=0.2),
        "refused": lambda: unary("Refuse"),
        "unknown": lambda: unary("Nothing"),
        "again": lambda: echoed(channel, b"again"),
    }
    for name, make in calls.items():
        print(f"{name}: {outcome(make)}")
    channel.close()


if sys.argv[1] == "serve":
    serve()
else:
    call(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
