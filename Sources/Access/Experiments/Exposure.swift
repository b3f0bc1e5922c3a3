package import struct FoundationEssentials.Date

/// The first time that a user saw a variant of an experiment. The variant is the user's from then on.
package struct Exposure: Hashable, Sendable {
  package let experiment: String
  package let variant: String
  /// By the clock of the app, which may have been offline.
  package let at: Date

  package init(experiment: String, variant: String, at: Date) {
    self.experiment = experiment
    self.variant = variant
    self.at = at
  }
}
