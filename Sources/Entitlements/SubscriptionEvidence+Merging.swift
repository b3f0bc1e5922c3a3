extension SubscriptionEvidence {
  package func merging(_ other: SubscriptionEvidence) -> SubscriptionEvidence { self }
}
