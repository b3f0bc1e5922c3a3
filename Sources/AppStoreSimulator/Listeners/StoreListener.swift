import HTTPTypes
import Hummingbird
import NIOCore

/// The TLS side: verifyReceipt, the Server API and DeviceCheck, each at one path per environment, with the misbehaviour
/// of troubles.
struct StoreListener: Sendable {
  static let productionPath = "/verifyReceipt"
  static let sandboxPath = "/sandbox/verifyReceipt"
  static let serverAPIPath = "/server-api"
  static let serverAPISandboxPath = "/sandbox/server-api"
  /// The development server's; production's paths are Apple's own, `/v1/…`.
  static let deviceCheckDevelopmentPath = "/development"
  /// Larger than any receipt; one of 187 purchases is 105 KB of base64.
  private static let requestLimit = 16 << 20

  let core: SimulatorCore
  let connections: ConnectionRegistry

  /// Ends an answer in the middle.
  private struct CutShort: Error {}

  func respond(to request: Request, context: SimulatorContext) async throws -> Response {
    connections.add(context.channel)
    let ask: (_ body: [UInt8]) -> Answer
    switch request.uri.path {
    case Self.productionPath: ask = verifyReceipt(request, .production)
    case Self.sandboxPath: ask = verifyReceipt(request, .sandbox)
    case let path where path.hasPrefix(Self.serverAPIPath + "/"):
      ask = serverAPI(request, path.dropFirst(Self.serverAPIPath.count), .production)
    case let path where path.hasPrefix(Self.serverAPISandboxPath + "/"):
      ask = serverAPI(request, path.dropFirst(Self.serverAPISandboxPath.count), .sandbox)
    case let path where path.hasPrefix("/v1/"): ask = deviceCheck(request, path[...], .production)
    case let path where path.hasPrefix(Self.deviceCheckDevelopmentPath + "/v1/"):
      ask = deviceCheck(request, path.dropFirst(Self.deviceCheckDevelopmentPath.count), .sandbox)
    case Trouble.redirectPath:
      core.calls.recordFollowedRedirect()
      return Response(status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(string: #"{"status":21010}"#)))
    default: return Response(status: .notFound)
    }

    core.calls.begin()
    defer { core.calls.end() }
    let body: ByteBuffer
    do {
      body = try await request.body.collect(upTo: Self.requestLimit)
    } catch {
      return Response(status: .contentTooLarge)
    }
    let answer = ask(Array(buffer: body))
    let delay = core.delay.current
    if delay > .zero { try await Task.sleep(for: delay) }
    return try await send(answer, over: context.channel)
  }

  private func verifyReceipt(_ request: Request, _ environment: StoreEnvironment) -> ([UInt8]) -> Answer {
    { core.verifyReceipt.answer(isPost: request.method == .post, body: $0, environment: environment) }
  }

  private func serverAPI(
    _ request: Request, _ path: Substring, _ environment: StoreEnvironment
  ) -> ([UInt8]) -> Answer {
    var call = ServerAPI.Call(
      method: request.method.rawValue, path: String(path),
      query: request.uri.queryParameters.map { (String($0.key), String($0.value)) },
      authorization: request.headers[.authorization], environment: environment)
    return { body in
      call.body = body
      return core.serverAPI.answer(call)
    }
  }

  private func deviceCheck(
    _ request: Request, _ path: Substring, _ environment: StoreEnvironment
  ) -> ([UInt8]) -> Answer {
    { body in
      core.deviceCheck.answer(
        DeviceCheckAPI.Call(
          method: request.method.rawValue, path: String(path), authorization: request.headers[.authorization],
          body: body, environment: environment))
    }
  }

  private func send(_ answer: Answer, over channel: any Channel) async throws -> Response {
    switch answer.manner {
    case .whole, .half, .drip, .endless: break
    case .never: try await waitForEnd(of: channel)
    case .reset:
      channel.cut(withReset: true)
      try await waitForEnd(of: channel)
    }
    var headers = HTTPFields()
    for (name, value) in answer.headers {
      if let name = HTTPField.Name(name) { headers[name] = value }
    }
    return Response(status: HTTPResponse.Status(code: answer.httpStatus), headers: headers, body: Self.body(of: answer))
  }

  /// Returns when the client has disconnected; throws when the simulator stops.
  private func waitForEnd(of channel: any Channel) async throws {
    while channel.isActive { try await Task.sleep(for: .milliseconds(20)) }
  }

  private static func body(of answer: Answer) -> ResponseBody {
    let whole = ByteBuffer(bytes: answer.body)
    switch answer.manner {
    case .whole, .never, .reset: return ResponseBody(byteBuffer: whole)
    case .half:
      return ResponseBody(contentLength: answer.body.count) { writer in
        try await writer.write(ByteBuffer(bytes: answer.body.prefix(answer.body.count / 2)))
        throw CutShort()
      }
    case .drip:
      return ResponseBody(contentLength: answer.body.count) { writer in
        for octet in answer.body {
          try await writer.write(ByteBuffer(bytes: [octet]))
          try await Task.sleep(for: .milliseconds(500))
        }
        try await writer.finish(nil)
      }
    case .endless:
      return ResponseBody { writer in
        while true {
          // 16 KiB a millisecond: soon beyond any limit, without loading the machine.
          try await Task.sleep(for: .milliseconds(1))
          try await writer.write(whole)
        }
      }
    }
  }
}
