import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT, sourceImports } from './source-imports.ts'

/** What serving, explanations, `edge test` and `edge replay` do in one way, because it is written once. */
const ONCE: readonly (readonly [what: string, written: RegExp])[] = [
  ['that asks who sends a request', /steps\.identify\(/g],
  ['that asks whether a body is needed', /steps\.needsBody\(/g],
  ['that asks what the head alone decides', /steps\.precheck\(/g],
  ['that compares the length of a body with the largest', /contentLength[^\n]*> [\w.#]*maxBodyBytes/g],
  ['that refuses a request without a host', /return NO_HOST\b/g],
  ['that asks for blocks before a decision', /= findBlock\(run\)/g],
  ['that refuses a request with a repeated field, or that no rule can count', /return run\.refusal\b/g],
  ["that takes for a request's rules", /store\.takeAll\(charges, results, run\./g],
  ['that reads what a gateway says of a prompt', /header\('x-edge-prompt-tokens'\)/g],
  ['that refuses a target that leaves the base path', /mayClimb\(target\)/g],
]

test.each(ONCE)('there is one place %s', (_what, written) => {
  const files = [...sourceImports().keys()]
  expect(files.flatMap((file) => readFileSync(join(ROOT, 'src', file), 'utf8').match(written) ?? [])).toHaveLength(1)
})
