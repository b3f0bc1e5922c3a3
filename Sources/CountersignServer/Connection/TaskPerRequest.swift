package import Hummingbird

/// Responds to each request in a task of its own.
///
/// A task keeps the memory of every async function that it was in until it ends, and a connection is one task: each that
/// had carried a receipt kept 54 KB. What a request takes is freed with its own task, but for an answer that is streamed.
package struct TaskPerRequest<Base: HTTPResponder>: HTTPResponder where Base.Context: Sendable {
  var base: Base
  var prepare: @Sendable (inout Request, inout Base.Context) -> Void

  /// - Parameter prepare: what happens to a request before its route is looked for.
  package init(_ base: Base, prepare: @escaping @Sendable (inout Request, inout Base.Context) -> Void = { _, _ in }) {
    self.base = base
    self.prepare = prepare
  }

  package func respond(to request: Request, context: Base.Context) async throws -> Response {
    var (request, context) = (request, context)
    prepare(&request, &context)
    // Not `async let`: compilers before 6.3.1 free its memory in a wrong order, which ends the process
    // (https://github.com/swiftlang/swift/issues/81771).
    return try await withThrowingTaskGroup(of: Response.self) { group in
      group.addTask { [base, request, context] in try await base.respond(to: request, context: context) }
      guard let response = try await group.next() else { throw CancellationError() }
      return response
    }
  }
}
