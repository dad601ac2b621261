import { spawnSync } from 'node:child_process'
import { describe, test } from 'vitest'

/** Tests that need certificates of their own making. Without openssl they are skipped, and say so; in CI they fail. */
export function describeWithOpenssl(name: string, body: () => void): void {
  if (spawnSync('openssl', ['version']).status === 0) return void describe(name, body)
  if (process.env['CI']) {
    describe(name, () => {
      test('has openssl', () => {
        throw new Error('openssl is not installed')
      })
    })
    return
  }
  process.stderr.write(`\nSKIPPED: "${name}": openssl is not installed\n`)
  describe.skip(name, body)
}
