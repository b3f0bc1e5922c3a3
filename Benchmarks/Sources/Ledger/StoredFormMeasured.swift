package import Entitlements

/// The stored form of a verdict, by the module's own writer and reader and by Foundation's coders.
package enum StoredFormMeasured {
  package static func write(_ verdict: Entitlement) throws -> String { try StoredForm.text(verdict) }
  package static func encode(_ verdict: Entitlement) throws -> String { try StoredForm.encoded(verdict) }
  package static func read(_ text: String) throws -> Entitlement { try StoredForm.value(Entitlement.self, text) }
  package static func decode(_ text: String) throws -> Entitlement { try StoredForm.decoded(Entitlement.self, text) }
}
