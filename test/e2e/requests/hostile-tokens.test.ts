import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { backtrackFlags, TOO_MANY_BACKTRACKS } from '../../support/linear/backtrack-flags.ts'
import { ask } from '../../support/service/http.ts'
import { scratchDirectory, serving, thisTest } from '../../support/service/running.ts'
import { original } from '../../support/service/wire.ts'

/** Enough for every character of a request's head, many times over; a tenth of what the square of a token's length would be. */
const MOST_BACKTRACKS = 500_000

/** Of the claims: so long that the token is just below 32 KB. */
const LENGTH = 24_000
const DIGITS = '1'.repeat(16)

const CLAIMS: Readonly<Record<string, string>> = {
  'a text that has quotes and no end': `${DIGITS}"${'\\"'.repeat(LENGTH / 2)}`,
  'texts that have no end': `${DIGITS}${'"a\\'.repeat(LENGTH / 3)}`,
  digits: '1'.repeat(LENGTH),
  'halves of numbers': '-1.'.repeat(LENGTH / 3) + DIGITS,
  'numbers with exponents': `${'1e'.repeat(LENGTH / 2)}${DIGITS}`,
}

test('tokens of 32 KB take no more work than their length, whatever their claims', async () => {
  const path = join(await scratchDirectory(), 'bundle.json')
  const rules = [bucketRule('r', ['jwt:sub', 'header:x-api-key', 'ip:address'], 100)]
  await writeFile(path, JSON.stringify(bundle(1, policy('p', { rules }))))
  const edge = await serving({ EDGE_CONFIG_FILE: path }, [], thisTest, { nodeFlags: backtrackFlags(MOST_BACKTRACKS) })
  for (const claims of Object.values(CLAIMS)) {
    const token = `Bearer e30.${Buffer.from(claims).toString('base64url')}.sig`
    const answer = await ask(edge.port, 'POST', '/v1/decision', original('/', ['Authorization', token]))
    expect(answer.status).toBe(200)
  }
  await edge.stop()
  expect(edge.stdout).not.toContain(TOO_MANY_BACKTRACKS)
})
