import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// The way to the service: URLSession, or a script in tests.
public protocol Transport: Sendable {
  /// Any status is an answer. Throws where there is none: no network, too late, too long.
  func send(_ request: TransportRequest) async throws -> TransportResponse
}

/// A request as it goes out. It has the user's token in it: do not log it.
public struct TransportRequest: Sendable {
  public var method: String
  public var url: URL
  public var headers: [String: String]
  public var body: Data?

  public init(method: String, url: URL, headers: [String: String] = [:], body: Data? = nil) {
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
  }
}

/// An answer as it came.
public struct TransportResponse: Sendable {
  public var status: Int
  /// By their names in small letters.
  public var headers: [String: String]
  public var body: Data

  public init(status: Int, headers: [String: String] = [:], body: Data = Data()) {
    self.status = status
    self.headers = headers
    self.body = body
  }
}

/// URLSession without cookies, without a cache, and without redirects: a user's token goes to one host.
public final class URLSessionTransport: Transport {
  private let session: URLSession
  private let answers: Answers
  private let deadline: TimeInterval

  /// - Parameters:
  ///   - deadline: for a whole request, in seconds.
  ///   - maximumLength: of an answer's body, in bytes. A longer one is an error.
  public init(deadline: TimeInterval = 15, maximumLength: Int = 1024 * 1024) {
    let configuration = URLSessionConfiguration.ephemeral
    configuration.httpCookieStorage = nil
    configuration.httpShouldSetCookies = false
    configuration.urlCache = nil
    // Whole seconds: Linux drops what is behind the point. The deadline itself is kept in `send`.
    configuration.timeoutIntervalForRequest = deadline.rounded(.up)
    configuration.timeoutIntervalForResource = deadline.rounded(.up)
    answers = Answers(maximumLength: maximumLength)
    session = URLSession(configuration: configuration, delegate: answers, delegateQueue: nil)
    self.deadline = deadline
  }

  deinit { session.invalidateAndCancel() }

  public func send(_ request: TransportRequest) async throws -> TransportResponse {
    var urlRequest = URLRequest(url: request.url, timeoutInterval: deadline.rounded(.up))
    urlRequest.httpMethod = request.method
    urlRequest.httpBody = request.body
    for (name, value) in request.headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
    let task = session.dataTask(with: urlRequest)
    // URLSession's own limits are between two packets on some systems; this one is for the whole.
    let timer = Task {
      try await Task.sleep(nanoseconds: UInt64(deadline * 1_000_000_000))
      task.cancel()
    }
    defer { timer.cancel() }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        answers.expect(task.taskIdentifier, continuation)
        task.resume()
        // A task that was cancelled before it was expected may have ended already: its delegate call will not come again.
        if Task.isCancelled { answers.cancel(task.taskIdentifier) }
      }
    } onCancel: {
      task.cancel()
    }
  }

  /// Collects the answers, each within its bound.
  private final class Answers: NSObject, URLSessionDataDelegate, Sendable {
    private struct Answer {
      var body = Data()
      var isTooLong = false
      let continuation: CheckedContinuation<TransportResponse, any Error>
    }

    private let maximumLength: Int
    private let waiting = Locked<[Int: Answer]>([:])

    init(maximumLength: Int) { self.maximumLength = maximumLength }

    func expect(_ task: Int, _ continuation: CheckedContinuation<TransportResponse, any Error>) {
      waiting.withLock { $0[task] = Answer(continuation: continuation) }
    }

    func cancel(_ task: Int) {
      waiting.withLock { $0.removeValue(forKey: task) }?.continuation.resume(throwing: URLError(.cancelled))
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
      let isTooLong = waiting.withLock { waiting in
        guard var answer = waiting.removeValue(forKey: dataTask.taskIdentifier) else { return false }
        answer.isTooLong = answer.isTooLong || answer.body.count + data.count > maximumLength
        if !answer.isTooLong { answer.body.append(data) }
        waiting[dataTask.taskIdentifier] = answer
        return answer.isTooLong
      }
      if isTooLong { dataTask.cancel() }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
      guard let answer = waiting.withLock({ $0.removeValue(forKey: task.taskIdentifier) }) else { return }
      guard error == nil, !answer.isTooLong, let response = task.response as? HTTPURLResponse else {
        return answer.continuation.resume(throwing: error ?? URLError(.badServerResponse))
      }
      var headers: [String: String] = [:]
      for (name, value) in response.allHeaderFields {
        headers["\(name)".lowercased()] = "\(value)"
      }
      answer.continuation.resume(
        returning: TransportResponse(status: response.statusCode, headers: headers, body: answer.body))
    }

    func urlSession(
      _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
      newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
      completionHandler(nil)
    }
  }
}
