import ArgumentParser
import CountersignServer
import Files
import FoundationEssentials
import HTTPTransport

/// The address of the running service and an API key for it, for every command that calls it.
struct ServiceOptions: ParsableArguments {
  @Option(name: .long, help: "The address of the service; COUNTERSIGN_URL names it otherwise.")
  var url: String?

  @Option(name: .long, help: "A file that contains the API key and nothing else.")
  var keyFile: String?

  @Option(name: .long, help: "Certificate authorities to trust for TLS (PEM), in place of the system's.")
  var caFile: String?

  @Flag(name: .long, help: "Send the key to another machine by http://, where anybody on the way can read it.")
  var insecure = false

  static let defaultURL = "http://127.0.0.1:8080"

  /// The client, and its transport, which has to be shut down; or reports what is wrong and ends with 64 or 69.
  func client(environment: [String: String]) throws -> (client: ServiceClient, transport: CurlTransport) {
    let origin: String
    let key: String
    do throws(CommandUsage) {
      origin = try Self.origin(
        url ?? environment[ConfigurationKey.urlVariable] ?? Self.defaultURL, isInsecure: insecure)
      key = try Self.key(file: keyFile, environment: environment)
    } catch { throw CommandOutput.failure(error.description, .usage) }
    let transport = try Self.transport(caFile: caFile)
    return (ServiceClient(transport: transport, url: origin, key: key), transport)
  }

  /// A transport for https and http, or reports why it cannot start and ends with 69.
  static func transport(caFile: String? = nil) throws -> CurlTransport {
    var configuration = CurlTransport.Configuration(caFile: caFile)
    configuration.allowedSchemes = [.https, .http]
    do { return try CurlTransport(configuration: configuration) } catch {
      throw CommandOutput.failure("the HTTP client cannot start: \(error)", .unavailable)
    }
  }

  /// - Parameter isInsecure: whether the key may go to another machine in clear.
  static func origin(_ url: String, isInsecure: Bool = false, option: String = "--url") throws(CommandUsage) -> String {
    do throws(BadValue) { _ = try ValueForm.baseURL.read(url) } catch {
      throw CommandUsage(
        description:
          "\(option) has to be the address of the service, such as \(defaultURL) or https://countersign.example.com.")
    }
    guard isInsecure || url.lowercased().hasPrefix("https://") || Loopback.contains(url: url) else {
      throw CommandUsage(
        description:
          "\(option): by http:// the API key goes to another machine in clear; use https://, or --insecure where "
          + "nobody else can listen.")
    }
    var url = url
    while url.hasSuffix("/") { url.removeLast() }
    return url
  }

  static func key(
    file: String?, environment: [String: String], variable: String = ConfigurationKey.apiKeyVariable,
    option: String = "--key-file"
  ) throws(CommandUsage) -> String {
    let text: String
    if let file {
      do throws(BoundedFile.Unusable) {
        let bytes = try BoundedFile(path: file, limit: Authentication.longestCredential).bytes
        text = String(decoding: bytes, as: UTF8.self)
      } catch {
        throw CommandUsage(description: "\(option): \(Quotation.of(file, length: 4_096)) \(error.reason).")
      }
    } else if let given = environment[variable] {
      text = given
    } else {
      throw CommandUsage(description: "an API key is needed: set \(variable), or name a file with \(option).")
    }
    do throws(BadValue) { return try ValueForm.word.read(text.trimmed).exposed } catch {
      throw CommandUsage(description: "the API key \(error.sentence).")
    }
  }
}

/// A wrong call of a command, as one sentence.
struct CommandUsage: Error, Hashable, CustomStringConvertible {
  var description: String
}

extension ServiceClient.Failure {
  var exitCode: ExitCode {
    switch self {
    case .refusedCredential: .refusedCredential
    case .refused: .usage
    case .away, .unreachable, .notFound, .cancelled: .unavailable
    }
  }

  /// The text for a person, after the address of the service.
  var sentence: String {
    switch self {
    case .away(let reason, _): "\(reason). Is the service running there?"
    case .unreachable(let reason): "\(reason)."
    case .refusedCredential(let reason), .refused(let reason): reason
    case .notFound: "there is no such path; is it Countersign, of this version?"
    case .cancelled: "interrupted."
    }
  }
}

extension ServiceOptions {
  /// Sends a request for support or the app's server, or reports what is wrong and ends with the exit code for it.
  func ask(
    _ method: TransportRequest.Method, _ path: String, answerLimit: Int = ServiceClient.answerLimit
  ) async throws -> [UInt8] {
    let (client, transport) = try client(environment: ProcessInfo.processInfo.environment)
    defer { transport.shutdown() }
    do throws(ServiceClient.Failure) {
      return try await client.send(method, path, answerLimit: answerLimit).body
    } catch { throw CommandOutput.failure("\(client.url): \(error.sentence)", error.exitCode) }
  }

  /// The same, with the answer decoded.
  ///
  /// - Parameter complaint: the reason why an answer that is no such value cannot be used.
  func ask<Value: Decodable>(
    _ method: TransportRequest.Method, _ path: String, answerLimit: Int = ServiceClient.answerLimit,
    or complaint: String
  ) async throws -> (value: Value, body: [UInt8]) {
    let body = try await ask(method, path, answerLimit: answerLimit)
    do throws(ServiceClient.Failure) { return (try ServiceClient.decode(body, or: complaint), body) } catch {
      throw CommandOutput.failure(error.sentence, error.exitCode)
    }
  }
}
