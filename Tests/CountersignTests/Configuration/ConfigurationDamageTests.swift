import SeededRandom
import Testing

@testable import Countersign

@Suite("Damaged configuration files", .computing)
struct ConfigurationDamageTests {
  /// Letters that mean something in YAML, and bytes that mean nothing.
  private static let splinters: [[UInt8]] =
    [
      ":", "{", "}", "[", "]", ",", "&a ", "*a", "? ", "- ", "\n", "\t", "\"", "'", "|", ">", "!", "%", "@", "#", "~",
      "---\n",
      "<<: ", "\r", "0", "null", "  ",
    ].map { Array($0.utf8) } + [[0], [0xff], [0xef, 0xbb, 0xbf], [0xc3], [0xe2, 0x80, 0xae]]

  @Test(arguments: 0..<4)
  func `a damaged file is read or refused, and tells no secret`(seed: UInt64) {
    let whole = Array(SampleConfiguration().yaml.utf8)
    var random = SeededRandom(seed: seed)
    var refused = 0
    for _ in 0..<500 {
      var bytes = whole
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        let start = Int.random(in: 0..<bytes.count, using: &random)
        let end = min(bytes.count, start + Int.random(in: 0...3, using: &random))
        bytes.replaceSubrange(start..<end, with: Self.splinters.randomElement(using: &random) ?? [])
      }
      var findings = ConfigurationFindings()
      let file = ConfigurationFile(bytes: bytes, name: "countersign.yaml", findings: &findings)
      var reader = ConfigurationReader(file: file, environment: [:], findings: findings)
      do throws(ConfigurationError) {
        _ = try ServiceConfiguration(&reader, requiresCredential: true)
      } catch {
        refused += 1
        #expect(!error.problems.isEmpty)
        #expect(!error.description.contains(SampleConfiguration.sharedSecret), "\(error)")
        #expect(!error.description.contains(SampleConfiguration.hash), "\(error)")
      }
    }
    #expect((250..<500).contains(refused))
  }
}
