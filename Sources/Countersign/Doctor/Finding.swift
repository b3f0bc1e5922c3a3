import ArgumentParser
import CountersignServer
import NIOCore

/// The result of one check: a sentence that confirms it, or says what to do.
struct Finding: Hashable, Sendable, Encodable {
  enum Verdict: String, Hashable, Sendable, Encodable, CaseIterable {
    case ok
    /// Works, but deserves attention.
    case warning
    /// Has to be fixed.
    case fail
  }

  /// The section of the configuration that was checked.
  var subject: String
  var verdict: Verdict
  /// Contains no secret.
  var sentence: String

  init(_ subject: String, _ verdict: Verdict, _ sentence: String) {
    self.subject = subject
    self.verdict = verdict
    self.sentence = sentence
  }
}

/// All findings, for people and for machines.
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

  /// For an invalid configuration, with which nothing else can be checked.
  init(_ error: ConfigurationError) {
    status = .configuration
    findings = error.problems.map { Finding("configuration", .fail, $0.description) }
  }

  /// Prints the report, for people or as JSON; a finding to fix ends the command with exit code 1 or 78.
  func finish(json: Bool) throws {
    print(json ? String(buffer: JSONBody.encode(self)) : text + "\n", terminator: "")
    switch status {
    case .ok: break
    case .fail: throw ExitCode.failure
    case .configuration: throw ExitCode.configuration
    }
  }

  /// One line per finding.
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
