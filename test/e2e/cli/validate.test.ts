import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bucketRule, bundle, matching, policy, windowRule } from '../../support/bundles/bundles.ts'
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

test('validate warns of a limit that clients escape by leaving out its key, and the recipe of the warning is one', async () => {
  const directory = await scratchDirectory()
  const [escaped, mended] = ['escaped.json', 'mended.json'].map((name) => join(directory, name)) as [string, string]
  const team = bucketRule('team', ['header:x-team'], 1)
  await writeFile(escaped, JSON.stringify(bundle(1, policy('p', { rules: [team] }))))
  const { stdout, stderr } = await command('validate', escaped)
  expect(stdout).toBe(`${escaped}: ok, version 1, 1 policy\n`)
  const said =
    /: warning: .*: a client that leaves out header:x-team is not limited: write match: (\{.*\}) here, and add a rule with match: (else) and limit_keys: (\[.*\])\n$/
  const [, match, others, keys] = said.exec(stderr)!
  const rules = [
    matching(JSON.parse(match!.replace(/^\{ (.*) \}$/, '{$1}')), team),
    matching(others as 'else', bucketRule('others', JSON.parse(keys!), 1)),
  ]
  await writeFile(mended, JSON.stringify(bundle(1, policy('p', { rules }))))
  expect(await command('validate', mended)).toMatchObject({ status: 0, stderr: '' })
})

test('validate names a size that is no size, and checks the bundle all the same', async () => {
  const file = await bundleFile()
  const { status, stdout, stderr } = await finished(['validate', file], { EDGE_STORE_SIZE: 'large' })
  expect({ status, stdout }).toEqual({ status: 1, stdout: `${file}: ok, version 1, 1 policy\n` })
  expect(stderr).toMatch(/^edge validate: EDGE_STORE_SIZE: expected .*\n$/)
})

async function bundleFile(): Promise<string> {
  const file = join(await scratchDirectory(), 'bundle.json')
  const rules = [
    windowRule('month', ['header:x-key'], { limit: 1000, period: '1mo' }),
    bucketRule('login', ['header:x-user'], 1, 1 / 3600),
    bucketRule('address', ['ip:address'], 100),
  ]
  await writeFile(file, JSON.stringify(bundle(1, policy('p', { rules }))))
  return file
}
