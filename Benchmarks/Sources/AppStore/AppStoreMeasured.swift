import Resilience

/// The plain path of a receipt, whose types are internal to the module.
package enum AppStoreMeasured {
  /// Decodes a receipt whose frame nothing remembers.
  package static func decodeUnknown(_ bytes: [UInt8]) throws -> AppReceipt {
    try AppReceipt.decode(bytes, knowing: KnownSigners(limit: 1))
  }
}
