package import Hummingbird

/// Responds to each request in a task of its own.
///
/// A task keeps the memory of every async function that it was in until it ends, and a connection is one task: each that
/// had carried a receipt kept 54 KB. What a request takes is freed with its own task, but for an answer that is streamed.
package struct TaskPerRequest<Base: HTTPResponder>: HTTPResponder where Base.Context: Sendable {
  var base: Base

  package init(_ base: Base) {
    self.base = base
  }

  package func respond(to request: Request, context: Base.Context) async throws -> Response {
    // Not `async let`: compilers before 6.3.1 free its memory in a wrong order, which ends the process
    // (https://github.com/swiftlang/swift/issues/81771).
    try await withThrowingTaskGroup(of: Response.self) { group in
      group.addTask { [base] in try await base.respond(to: request, context: context) }
      guard let response = try await group.next() else { throw CancellationError() }
      return response
    }
  }
}
