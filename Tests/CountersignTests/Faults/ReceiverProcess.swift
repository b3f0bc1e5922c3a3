import Foundation
import TestSupport

/// A receiver of webhooks as a process of its own, which a test may kill: an answer follows when the request is on the disk.
///
/// It is written in Python, so that none of our code reads a header there. Where PyPI's `standardwebhooks` is installed
/// (`make faults` does that), that library judges each request as it comes, and a few that were tampered with.
final class ReceiverProcess {
  /// The requests that came, one after the other.
  struct Delivery: Decodable {
    var path: String
    var headers: [String: String]
    var body: Data
    /// The library's judgement; nil where it is not installed.
    var accepted: Bool?
    /// The tampered forms of the request that the library accepted.
    var deceived: [String]?
  }

  static let python = FaultTool.path("python3")

  let port: Int
  private let record: URL
  private let arguments: [String]
  private let environment: [String: String]
  private var process: ChildProcess?

  /// - Parameter environment: of the process, besides that of this one.
  init(port: Int, secret: String, in directory: URL, environment: [String: String]) throws {
    self.port = port
    self.environment = environment
    record = directory.appending(path: "deliveries.jsonl")
    let program = directory.appending(path: "receiver.py")
    try Self.source.write(to: program, atomically: true, encoding: .utf8)
    arguments = [program, record].map { $0.path(percentEncoded: false) } + [String(port), secret]
  }

  /// Starts it, and waits until it listens.
  func start() async throws {
    guard let python = Self.python else { throw RunningService.Failure("there is no python3") }
    let process = try await ChildProcess.start(
      python, arguments, environment: ProcessInfo.processInfo.environment.merging(environment) { $1 })
    self.process = process
    guard await process.output({ !$0.isEmpty }) != nil else {
      throw RunningService.Failure("the receiver did not start: \(await process.ending().error)")
    }
  }

  /// As a power cut would for the process.
  func kill() async {
    process?.signal(SIGKILL)
    await process?.ending()
    process = nil
  }

  func deliveries() throws -> [Delivery] {
    guard let data = FileManager.default.contents(atPath: record.path(percentEncoded: false)) else { return [] }
    return try data.split(separator: UInt8(ascii: "\n")).map { try JSONDecoder().decode(Delivery.self, from: $0) }
  }

  private static let source = """
    import base64, http.server, json, os, sys, threading

    try:
        from standardwebhooks import Webhook
    except ImportError:
        Webhook = None

    record = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    secret = sys.argv[3]
    lock = threading.Lock()


    def accepts(headers, body):
        try:
            Webhook(secret).verify(body, headers)
            return True
        except Exception:
            return False


    def judged(headers, body):
        if Webhook is None:
            return {}
        signature = headers["webhook-signature"]
        code = bytearray(base64.b64decode(signature[3:]))
        code[0] ^= 1
        time = int(headers["webhook-timestamp"])
        tampered = {
            "body": (headers, body[:3] + bytes([body[3] ^ 1]) + body[4:]),
            "id": (headers | {"webhook-id": headers["webhook-id"] + "0"}, body),
            "timestamp": (headers | {"webhook-timestamp": str(time + 1)}, body),
            "late": (headers | {"webhook-timestamp": str(time - 400)}, body),
            "signature": (headers | {"webhook-signature": "v1," + base64.b64encode(code).decode()}, body),
        }
        return {
            "accepted": accepts(headers, body),
            "deceived": [what for what, request in tampered.items() if accepts(*request)],
        }


    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            length = int(self.headers["content-length"])
            body = self.rfile.read(length)
            if len(body) < length:
                return  # The sender was killed.
            headers = {name.lower(): value for name, value in self.headers.items()}
            line = {"path": self.path, "headers": headers, "body": base64.b64encode(body).decode()}
            line |= judged(headers, body)
            with lock:
                os.write(record, (json.dumps(line) + "\\n").encode())
                os.fsync(record)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass


    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    print("listening", flush=True)
    server.serve_forever()
    """
}
