import Synchronization

/// Our own check of a submission, made once, at the latest when somebody needs its result.
package final class DeferredProof: Sendable {
  private let check: @Sendable () -> LocalProof
  private let known: Mutex<LocalProof?>

  package init(_ proof: LocalProof) {
    check = { proof }
    known = Mutex(proof)
  }

  init(_ check: @escaping @Sendable () -> LocalProof) {
    self.check = check
    known = Mutex(nil)
  }

  var isKnown: Bool { known.withLock { $0 != nil } }

  var value: LocalProof {
    known.withLock { known in
      let proof = known ?? check()
      known = proof
      return proof
    }
  }
}
