import HTTPTransport

import struct FoundationEssentials.Data

/// A token of DeviceCheck, with which Apple recognises one device: the result of `DCDevice.generateToken` in base64.
///
/// A token serves one request to Apple and its repetition, within half a minute or so: an app sends one for each request.
///
/// https://developer.apple.com/documentation/devicecheck/dcdevice
package struct DeviceToken: Hashable, Sendable {
  /// Why a text is no such token. `description` is a sentence for the caller; it quotes nothing of the text.
  package enum Invalid: Error, Hashable, Sendable, CaseIterable, CustomStringConvertible {
    case empty, tooLong, notBase64

    package var description: String {
      switch self {
      case .empty: "The device token is empty; send the token from DCDevice in base64."
      case .tooLong: "The device token is longer than 8 KiB, which no token is; send the token from DCDevice in base64."
      case .notBase64: "The device token is not base64 (with padding, without line breaks) of the token from DCDevice."
      }
    }
  }

  /// The longest text in bytes. Apple's tokens have two or three thousand.
  package static let limit = 8 * 1_024

  let text: Secret

  package init(_ text: String) throws(Invalid) {
    guard !text.isEmpty else { throw .empty }
    guard text.utf8.count <= Self.limit else { throw .tooLong }
    guard Data(base64Encoded: text) != nil else { throw .notBase64 }
    self.text = Secret(text)
  }
}
