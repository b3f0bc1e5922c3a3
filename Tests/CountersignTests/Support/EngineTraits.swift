import TestSupport
import Testing

extension Trait where Self == ConditionTrait {
  /// For a test of SQLite's file.
  static var ofTheFile: Self { .disabled(if: TestEngine.isPostgreSQL, "This is about SQLite's file.") }
}
