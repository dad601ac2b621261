import { writeFileSync } from 'node:fs'
import type { Reporter, SerializedError, TestModule } from 'vitest/node'

/**
 * A reporter: each failed test, suite and file once more in a line of its own, at the end, where the last screen of a long log shows all of them.
 * `scripts/run-tests.mjs` reads them in the file that EDGE_TEST_FAILED names, unless something failed outside of all files.
 */
export default class FailedTests implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const failed = modules
      .map((module) => ({ project: module.project.name, file: module.relativeModuleId, why: failuresOf(module) }))
      .filter(({ why }) => why.length > 0)
    const lines = failed.flatMap(({ file, why }) => why.map((one) => `  ${file}${one}\n`))
    if (lines.length > 0) process.stdout.write(`\nFAILED:\n${lines.join('')}`)
    const path = process.env['EDGE_TEST_FAILED']
    if (path !== undefined && unhandled.length === 0) writeFileSync(path, JSON.stringify(failed))
  }
}

function failuresOf(module: TestModule): string[] {
  const ofFile = module.errors().map(({ message }) => `: ${firstLine(message)}`)
  // What a hook of a `describe` throws belongs to that suite, not to a test.
  const ofSuites = [...module.children.allSuites()].flatMap((suite) =>
    suite.errors().map(({ message }) => ` > ${suite.fullName} (suite): ${firstLine(message)}`),
  )
  const ofTests = [...module.children.allTests('failed')].map(
    (test) => ` > ${test.fullName}: ${firstLine(test.result().errors?.[0]?.message ?? '')}`,
  )
  return [...ofFile, ...ofSuites, ...ofTests]
}

function firstLine(message: string): string {
  return message.split('\n', 1)[0]!
}
