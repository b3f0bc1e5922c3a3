/// A verdict with its explanation and its decision.
@dynamicMemberLookup
public struct ExplainedEntitlement: Codable, Hashable, Sendable {
  /// The verdict; on the wire its members stand beside the others.
  public var entitlement: EntitlementState
  /// Sentences for people.
  public var explanation: String
  public var decision: Decision

  public init(entitlement: EntitlementState, explanation: String, decision: Decision) {
    self.entitlement = entitlement
    self.explanation = explanation
    self.decision = decision
  }

  public subscript<Value>(dynamicMember member: KeyPath<EntitlementState, Value>) -> Value {
    entitlement[keyPath: member]
  }

  enum CodingKeys: CodingKey {
    case explanation, decision
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    explanation = try container.decode(String.self, forKey: .explanation)
    decision = try container.decode(Decision.self, forKey: .decision)
    entitlement = try EntitlementState(from: decoder)
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(explanation, forKey: .explanation)
    try container.encode(decision, forKey: .decision)
    try entitlement.encode(to: encoder)
  }
}
