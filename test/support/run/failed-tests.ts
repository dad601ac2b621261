import type { Reporter, TestModule } from 'vitest/node'

/** A reporter: each failed test, suite and file once more in a line of its own, at the end, where the last screen of a long log shows all of them. */
export default class FailedTests implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const lines = modules.flatMap((module) => {
      const ownErrors = module.errors().map(({ message }) => `${module.relativeModuleId}: ${firstLine(message)}`)
      const failed = [...module.children.allTests('failed')].map(
        (test) => `${module.relativeModuleId} > ${test.fullName}: ${firstLine(test.result().errors?.[0]?.message ?? '')}`,
      )
      // What a hook of a `describe` throws belongs to that suite, not to a test.
      const ofSuites = [...module.children.allSuites()].flatMap((suite) =>
        suite.errors().map(({ message }) => `${module.relativeModuleId} > ${suite.fullName} (suite): ${firstLine(message)}`),
      )
      return [...ownErrors, ...ofSuites, ...failed]
    })
    if (lines.length > 0) process.stdout.write(`\nFAILED:\n${lines.map((line) => `  ${line}\n`).join('')}`)
  }
}

function firstLine(message: string): string {
  return message.split('\n', 1)[0]!
}
