import Synchronization

/// The posts of many customers, each posted until it is answered, those of a customer one after the other.
final class FaultFeed<Post: Sendable>: Sendable {
  private struct State {
    var posts: [ArraySlice<Post>]
    var answered = 0
    var answeredInThisLife = 0
    var isOver = false
  }

  /// Guards the posts of each customer that wait, and their counts.
  private let state: Mutex<State>
  private let send: @Sendable (Post, ServiceProcess) async throws -> Bool

  /// - Parameter send: says whether the post was answered.
  init(_ posts: [[Post]], send: @escaping @Sendable (Post, ServiceProcess) async throws -> Bool) {
    state = Mutex(State(posts: posts.map { $0[...] }))
    self.send = send
  }

  var waiting: Int { state.withLock { $0.posts.reduce(0) { $0 + $1.count } } }
  var answered: Int { state.withLock { $0.answered } }
  /// As many as anybody may wait for, once nothing more is posted.
  var answeredInThisLife: Int { state.withLock { $0.isOver ? .max : $0.answeredInThisLife } }

  func beginLife() { state.withLock { ($0.answeredInThisLife, $0.isOver) = (0, false) } }

  func add(_ posts: [Post], of customer: Int) { state.withLock { $0.posts[customer] += posts } }

  /// Posts until everything is answered, or an answer stays out.
  func run(_ service: ServiceProcess) async {
    await withTaskGroup(of: Void.self) { group in
      for lane in 0..<4 {
        group.addTask { [self] in
          for index in state.withLock({ Array(stride(from: lane, to: $0.posts.count, by: 4)) }) {
            while let post = state.withLock({ $0.posts[index].first }) {
              guard let isAnswered = try? await send(post, service), isAnswered else { return }
              state.withLock { state in
                state.posts[index].removeFirst()
                state.answered += 1
                state.answeredInThisLife += 1
              }
            }
          }
        }
      }
    }
    state.withLock { $0.isOver = true }
  }
}
