import { describe, test } from 'vitest'

/** Tests that need more than npm packages. Where `missing` says what they lack, they are skipped, and say so; in CI they fail. */
export function describeWith(missing: string | undefined, name: string, body: () => void): void {
  if (missing === undefined) return void describe(name, body)
  if (process.env['CI']) {
    describe(name, () => {
      test('has all that it needs', () => {
        throw new Error(missing)
      })
    })
    return
  }
  process.stderr.write(`\nSKIPPED: "${name}": ${missing}\n`)
  describe.skip(name, body)
}
