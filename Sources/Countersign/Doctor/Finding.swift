/// What one look at the deployment showed: a sentence that says what is right, or what to do.
struct Finding: Hashable, Sendable, Encodable {
  enum Verdict: String, Hashable, Sendable, Encodable, CaseIterable {
    case ok
    /// Works, but worth a look.
    case warning
    /// Has to be fixed.
    case fail
  }

  /// What was looked at, by the section of the configuration.
  var subject: String
  var verdict: Verdict
  /// It holds no secret.
  var sentence: String

  init(_ subject: String, _ verdict: Verdict, _ sentence: String) {
    self.subject = subject
    self.verdict = verdict
    self.sentence = sentence
  }
}

/// Everything that was looked at, in words and for machines.
struct CheckupReport: Encodable, Sendable {
  enum Status: String, Encodable, Sendable {
    case ok
    case fail
    case configuration
  }

  var status: Status
  var findings: [Finding]

  init(_ findings: [Finding]) {
    self.findings = findings
    status = findings.contains { $0.verdict == .fail } ? .fail : .ok
  }

  /// Of a configuration with which nothing else can be looked at.
  init(_ error: ConfigurationError) {
    status = .configuration
    findings = error.problems.map { Finding("configuration", .fail, $0.description) }
  }

  /// One line a finding.
  var text: String {
    let width = findings.map(\.subject.count).max() ?? 0
    return findings.map { finding in
      finding.verdict.rawValue.padded(to: 9) + finding.subject.padded(to: width + 2) + finding.sentence
    }.joined(separator: "\n")
  }
}

extension String {
  fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}
