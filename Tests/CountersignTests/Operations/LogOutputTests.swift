import Dispatch
import Glibc
import Synchronization
import Testing

@testable import Countersign

/// Lines that are gathered are those that would be written at once.
@Suite struct LogOutputTests {
  private let sink = Sink()

  /// The written text, write by write.
  private final class Sink: Sendable {
    private let state = Mutex<[String]>([])

    var writes: [String] { state.withLock(\.self) }

    func write(_ bytes: [UInt8]) { state.withLock { $0.append(String(decoding: bytes, as: UTF8.self)) } }
  }

  @Test func `gathered lines are written with the next urgent one, in their order`() {
    let output = LogOutput(every: .seconds(86_400), sink: sink.write)
    for line in ["a\n", "b\n", "c\n"] { output.write(line, isUrgent: false) }
    #expect(sink.writes.isEmpty)
    output.write("trouble\n")
    #expect(sink.writes == ["a\nb\nc\ntrouble\n"])
    output.write("d\n", isUrgent: false)
    output.flush()
    output.flush()
    #expect(sink.writes == ["a\nb\nc\ntrouble\n", "d\n"])
  }

  @Test func `nothing is gathered without an interval`() {
    let output = LogOutput(sink: sink.write)
    output.write("a\n", isUrgent: false)
    output.write("b\n", isUrgent: false)
    #expect(sink.writes == ["a\n", "b\n"])
  }

  @Test func `64 KiB are written at once`() {
    let output = LogOutput(every: .seconds(86_400), sink: sink.write)
    let line = String(repeating: "x", count: 1_023) + "\n"
    for _ in 0..<63 { output.write(line, isUrgent: false) }
    #expect(sink.writes.isEmpty)
    output.write(line, isUrgent: false)
    #expect(sink.writes == [String(repeating: line, count: 64)])
  }

  @Test(.timeLimit(.minutes(10))) func `lines are written after the interval`() async {
    let (writes, continuation) = AsyncStream.makeStream(of: [UInt8].self)
    let output = LogOutput(every: .milliseconds(1)) { continuation.yield($0) }
    output.write("a\n", isUrgent: false)
    var iterator = writes.makeAsyncIterator()
    #expect(await iterator.next() == Array("a\n".utf8))
    // Planned anew.
    output.write("b\n", isUrgent: false)
    #expect(await iterator.next() == Array("b\n".utf8))
  }

  @Test func `lines of many writers stay whole, each once and in its writer's order`() async {
    let output = LogOutput(every: .milliseconds(1)) { lines in
      // Another writer would come in between here.
      for _ in 0..<20 { sched_yield() }
      sink.write(lines)
    }
    await withTaskGroup(of: Void.self) { group in
      for writer in 0..<8 {
        group.addTask {
          for line in 0..<500 {
            output.write("\(writer) \(line) \(String(repeating: "x", count: 200))\n", isUrgent: line.isMultiple(of: 7))
          }
        }
      }
    }
    output.flush()
    var next = Array(repeating: 0, count: 8)
    for line in sink.writes.joined().split(separator: "\n") {
      let words = line.split(separator: " ")
      guard words.count == 3, let writer = Int(words[0]), next.indices.contains(writer), words[2].count == 200 else {
        Issue.record("a broken line: \(line)")
        continue
      }
      #expect(Int(words[1]) == next[writer])
      next[writer] += 1
    }
    #expect(next.allSatisfy { $0 == 500 })
    #expect(sink.writes.allSatisfy { $0.hasSuffix("\n") })
  }
}
