import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy, windowRule } from '../../support/bundles/bundles.ts'
import { command } from '../../support/service/command.ts'
import { finished, scratchDirectory } from '../../support/service/running.ts'

const WARNING =
  'warning: policy "p", rule "login": clients that make up values of header:x-user, 1,000 a second, fill half of the table of 1,958,656 counters (EDGE_STORE_SIZE), which has the budgets of policy "p", rule "month" too: let the gateway check the value, or make the table larger'

test('validate warns of keys that clients make up beside budgets, in a table that is too small for both', async () => {
  const file = await bundleFile()
  const ok = `${file}: ok, version 1, 1 policy\n`
  expect(await command('validate', file)).toEqual({ status: 0, stdout: ok, stderr: `${file}: ${WARNING}\n` })
  const { status, stdout, stderr } = await finished(['validate', file], { EDGE_STORE_SIZE: '256m' })
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: ok, stderr: '' })
})

test('validate names a size that is no size, and checks the bundle all the same', async () => {
  const file = await bundleFile()
  const { status, stdout, stderr } = await finished(['validate', file], { EDGE_STORE_SIZE: 'large' })
  expect({ status, stdout }).toEqual({ status: 1, stdout: `${file}: ok, version 1, 1 policy\n` })
  expect(stderr).toMatch(/^edge validate: EDGE_STORE_SIZE: expected .*\n$/)
})

async function bundleFile(): Promise<string> {
  const file = join(await scratchDirectory(), 'bundle.json')
  const rules = [windowRule('month', ['header:x-key'], { limit: 1000, period: '1mo' }), bucketRule('login', ['header:x-user'], 1, 1 / 3600)]
  await writeFile(file, JSON.stringify(bundle(1, policy('p', { rules }))))
  return file
}
