import ArgumentParser
import CountersignServer
import Files
import Foundation
import HTTPTransport

/// Where the running service is, and the key that it takes, for every command that asks it.
struct ServiceOptions: ParsableArguments {
  @Option(name: .long, help: "Where the service is; COUNTERSIGN_URL names it otherwise.")
  var url: String?

  @Option(name: .long, help: "A file with the API key, and nothing else.")
  var keyFile: String?

  @Option(name: .long, help: "Certificate authorities to trust for TLS (PEM), in place of the system's.")
  var caFile: String?

  static let defaultURL = "http://127.0.0.1:8080"

  /// The client, and its transport, which has to be shut down; or tells what is wrong and ends with 64 or 69.
  func client(environment: [String: String]) throws -> (client: ServiceClient, transport: CurlTransport) {
    let origin: String
    let key: String
    do throws(CommandUsage) {
      origin = try Self.origin(url ?? environment[CommandVariable.url] ?? Self.defaultURL)
      key = try Self.key(file: keyFile, environment: environment)
    } catch {
      CommandOutput.error(error.description)
      throw ExitCode.usage
    }
    do {
      var configuration = CurlTransport.Configuration(caFile: caFile)
      configuration.allowedSchemes = [.https, .http]
      let transport = try CurlTransport(configuration: configuration)
      return (ServiceClient(transport: transport, url: origin, key: key), transport)
    } catch {
      CommandOutput.error("the HTTP client cannot start: \(error)")
      throw ExitCode.unavailable
    }
  }

  static func origin(_ url: String) throws(CommandUsage) -> String {
    do throws(BadValue) { try ConfigurationValue.baseURL(url) } catch {
      throw CommandUsage(
        description:
          "--url has to be the address of the service, such as \(defaultURL) or https://countersign.example.com.")
    }
    var url = url
    while url.hasSuffix("/") { url.removeLast() }
    return url
  }

  static func key(file: String?, environment: [String: String]) throws(CommandUsage) -> String {
    let text: String
    if let file {
      do throws(BoundedFile.Unusable) {
        let bytes = try BoundedFile(path: file, limit: AuthenticationMiddleware.longestCredential).bytes
        text = String(decoding: bytes, as: UTF8.self)
      } catch {
        throw CommandUsage(description: "--key-file: \(ConfigurationValue.quoted(path: file)) \(error.reason).")
      }
    } else if let given = environment[CommandVariable.apiKey] {
      text = given
    } else {
      throw CommandUsage(
        description: "an API key is needed: set \(CommandVariable.apiKey), or name a file with --key-file.")
    }
    let key = String(text.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    do throws(BadValue) { try ConfigurationValue.secret(key) } catch {
      throw CommandUsage(description: "the API key \(error.sentence).")
    }
    return key
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
    case .refusedCredential(let reason): "\(reason)."
    case .refused(let detail): detail
    case .notFound: "there is no such path; is it Countersign, of this version?"
    case .cancelled: "interrupted."
    }
  }
}
