import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { WebhookReceiver } from '../../support/admin/webhook-receiver.ts'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { command } from '../../support/service/command.ts'
import type { Edge } from '../../support/service/edge.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const SECRET = '7418529637'

function yaml(version: number, match: string): string {
  return `bundle_version: ${version}\npolicies:\n  - id: p\n    spec:\n      rules:\n        - name: r\n          match: ${match}\n          limit_keys: []\n          algorithm: unlimited\n`
}

/** Each has the secret where a rule matches credentials, and is refused. */
const REFUSED = [
  `{ bearer: ${SECRET} }`,
  `{ header:authorization: ${SECRET} }`,
  `{ header:Authorization: [x, ${SECRET}] }`,
  `{ header:x-api-key: ${SECRET} }`,
  `{ cookie:sid: { value: ${SECRET} } }`,
  `{ query:key: ${SECRET} }`,
  `{ bearr: ${SECRET} }`,
  // Without a space after the colon, all of it is a key without a value.
  `{ bearer:${SECRET} }`,
  `{ header:authorization:${SECRET} }`,
  `{ query:key:${SECRET} }`,
  `{ cookie:sid:${SECRET}, bearer: x }`,
  `{ bearer: { sk-${SECRET} } }`,
  `{ bearer: "sk-${SECRET}${'x'.repeat(9000)}" }`,
  `{ header:X-Key: "sk-${SECRET}", header:x-key: "sk-${SECRET}" }`,
  `sk-${SECRET}`,
  SECRET,
  `{ bearer: *sk-${SECRET} }`,
  `{ bearer: !sk-${SECRET} x }`,
  `{ bearer: !sk[${SECRET} x }`,
  `{ bearer: "sk-${SECRET} }`,
]
/** These are accepted with warnings. */
const WARNED = ['bearer', 'header:authorization', 'header:cookie', 'cookie:sid'].map((key) => `{ ${key}: "sk-${SECRET}*x" }`)

const READ = ['events/recent', 'changes', 'status', 'bundle', 'bundles', 'policies']

async function expectNothingTold(edge: Edge, ...paths: readonly string[]): Promise<void> {
  for (const path of [...READ, ...paths]) {
    const { status, json } = await askAdmin(edge.adminPort, 'GET', path)
    expect([path, status, JSON.stringify(json).includes(SECRET)]).toEqual([path, 200, false])
  }
  expect(JSON.stringify(edge.log)).not.toContain(SECRET)
}

test('nothing but a text in clear tells the credentials of a bundle, whether it is refused, or accepted with warnings', async () => {
  const receiver = await WebhookReceiver.start()
  const edge = await running({ fileName: 'bundle.yaml', bundle: yaml(1, '{ bearer: "*" }'), env: { ...ADMIN_ENV, ...receiver.env } })
  for (const [i, match] of REFUSED.entries()) {
    await replaceFile(edge.bundlePath, yaml(100, match))
    await until(() => edge.logged('bundle_refused').length === i + 1)
    expect(JSON.stringify(edge.logged('bundle_refused').at(-1))).toMatch(/line \d+, column \d+/)
    await expectNothingTold(edge)
  }
  for (const [i, match] of WARNED.entries()) {
    await replaceFile(edge.bundlePath, yaml(i + 2, match))
    await until(() => edge.logged('bundle_applied').length === i + 2)
    await expectNothingTold(edge, `bundles/${i + 2}`, `bundles/${i + 2}/changes`)
  }
  expect(edge.logged('bundle_warnings')).toHaveLength(WARNED.length)
  const posted = (): unknown[] => receiver.events.filter(({ event }) => event === 'bundle_refused' || event === 'bundle_applied')
  await until(() => posted().length === REFUSED.length + WARNED.length + 1)
  expect(JSON.stringify(receiver.batches.map(({ body }) => body))).not.toContain(SECRET)
})

test('edge validate says what kind of value it found, and where', async () => {
  const file = join(await scratchDirectory(), 'limits.yaml')
  for (const match of [...REFUSED, ...WARNED]) {
    await writeFile(file, yaml(1, match))
    const { stdout, stderr } = await command('validate', file)
    expect([match, (stdout + stderr).includes(SECRET)]).toEqual([match, false])
  }
  await writeFile(file, yaml(1, `{ bearer: ${SECRET} }`))
  expect((await command('validate', file)).stderr).toBe(
    `${file}:7:20: error: policies[0].spec.rules[0].match.bearer: expected a text: the whole value, or a prefix that ends in *; or a list of them, got a number — put it in quotes?\n`,
  )
  await writeFile(file, yaml(1, '{ header:x-plan: gold, bearer:hunter2 }'))
  expect((await command('validate', file)).stderr).toBe(
    `${file}:7:41: error: policies[0].spec.rules[0].match: expected a pattern for each key, got a key without one — is the space after its colon missing?\n`,
  )
  await writeFile(file, yaml(1, '{ bearer: *hunter2 }'))
  expect((await command('validate', file)).stderr).toBe(
    `${file}:7:29: error: not YAML: unidentified alias, at line 7, column 29 (a text that begins with * needs quotes)\n`,
  )
})
