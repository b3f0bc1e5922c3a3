import JSON

/// The body of a request to the notification endpoint, classified by its outer form. Nothing is proven yet.
package enum PostedNotification: Sendable {
  /// Version 2: the value of `signedPayload`, a JWS.
  case signed(String)
  case version1(NotificationV1)
  /// Neither version; a constant text says why.
  case unreadable(String)

  /// Decodes a body. It is not authenticated, so one with more values than Apple sends is refused before it is parsed,
  /// and it takes no turn of large JSON.
  package static func decode(_ body: [UInt8]) -> PostedNotification {
    do throws(JSONError) {
      return try JSONReader.readAtOnce(body, size: .posted) { root throws(JSONError) in
        if let payload = root["signedPayload"] {
          guard case .string(let text) = payload.kind else { return .unreadable("signedPayload is no text.") }
          return .signed(text)
        }
        guard root["notification_type"] != nil else {
          return .unreadable("It has neither signedPayload nor notification_type.")
        }
        return .version1(try NotificationV1(root))
      }
    } catch {
      switch error {
      case .syntax: return .unreadable("It is not a JSON object.")
      case .tooLarge: return .unreadable("It is larger than a notification can be.")
      case .missing, .unreadable: return .unreadable("A member of it is missing or cannot be read.")
      }
    }
  }
}
