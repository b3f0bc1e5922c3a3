import Foundation
import HTTPTransport
import Testing

/// The answers of a real PostgREST 14.17 over PostgreSQL 15, each to one request.
enum RecordedAnswer {
  static let all = load()

  static func titled(_ title: String) throws -> Result<TransportResponse, TransportError> {
    .success(try #require(all[title], "no answer \(title)"))
  }

  private static func load() -> [String: TransportResponse] {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Recorded/postgrest-14.17.json")
    guard let data = try? Data(contentsOf: file),
      let pairs = try? JSONSerialization.jsonObject(with: data) as? [[String: Any]]
    else { return [:] }
    var answers: [String: TransportResponse] = [:]
    for pair in pairs {
      guard let title = pair["title"] as? String, let response = pair["response"] as? [String: Any],
        let status = response["status"] as? Int, let headers = response["headers"] as? [String: String]
      else { continue }
      let body = response["body"].flatMap { body in
        body is NSNull ? nil : try? JSONSerialization.data(withJSONObject: body)
      }
      answers[title] = TransportResponse(
        status: status, headers: headers.map { TransportHeader($0.key, $0.value) }, body: body.map(Array.init) ?? [])
    }
    return answers
  }
}
