import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const ENTRY = fileURLToPath(new URL('../soak/soak.mjs', import.meta.url))

test('a short soak passes in all scenarios', { timeout: 900_000 }, async () => {
  const { stdout } = await soak('--minutes', '0.2')
  for (const name of [
    'decisions-embedded',
    'decisions-redis-exact',
    'decisions-redis-leased',
    'proxy-embedded',
    'proxy-node',
    'proxy-redis',
  ]) {
    expect(stdout).toMatch(new RegExp(`^${name}, seed|SKIPPED.*${name}`, 'm'))
  }
  expect(stdout).toMatch(/^soak: passed$/m)
})

test('bad flags are all named, and nothing runs', async () => {
  const failed = soak('--minutes', 'ten', '--seed', '-', '--only', 'nothing')
  await expect(failed).rejects.toMatchObject({ code: 1, stdout: '' })
  const { stderr } = await failed.catch((error: { stderr: string }) => error)
  for (const flag of ['--minutes', '--seed', '--only']) expect(stderr).toContain(`${flag}: expected`)
})

function soak(...args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(process.execPath, [ENTRY, ...args])
}
