import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { burstYaml } from '../support/bundles/bundles.ts'
import { ask } from '../support/service/http.ts'
import { finished, scratchDirectory, serving } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { until } from '../support/until.ts'

/** In mebibytes, for each thread: a fraction of what these texts would stand for. */
const SMALL_HEAP = { NODE_OPTIONS: '--max-old-space-size=64' }

const WITHOUT_END: readonly (readonly [what: string, text: string])[] = [
  ['a list in itself', `bundle_version: 2\npolicies: [ &a [${'1,'.repeat(90_000)}*a] ]\n`],
  ['rules in themselves', 'bundle_version: 2\npolicies: [ { id: p, spec: { rules: &a [*a, *a] } } ]\n'],
  ['notes in themselves', `bundle_version: 2\nmetadata: &a { b: [${'*a,'.repeat(900)}*a] }\npolicies: []\n`],
  ['a billion laughs', `bundle_version: 2\nmetadata:\n${laughs(20)}\npolicies: []\n`],
  ['a billion laughs in each policy', `bundle_version: 2\nmetadata:\n${laughs(20)}\npolicies: [${'*l19,'.repeat(100)}*l19]\n`],
]

describe.concurrent('YAML that stands for more than any memory', () => {
  test('is refused by edge validate, in a sentence each', async (t) => {
    const directory = await scratchDirectory(t)
    const files = WITHOUT_END.map((_, i) => join(directory, `${i}.yaml`))
    for (const [i, [, text]] of WITHOUT_END.entries()) await writeFile(files[i]!, text)
    const { status, stderr } = await finished(['validate', ...files], SMALL_HEAP, t)
    expect([status, stderr.split('\n').slice(0, -1)]).toEqual([
      1,
      files.map((file) => expect.stringMatching(new RegExp(`^${file}(:\\d+:\\d+)?: error: `))),
    ])
    expect(stderr.match(/it contains itself through an alias|it has more than 2500000 values/g)).toHaveLength(files.length)
  })

  test('or takes more than there is while it is read, is refused by edge validate too', async (t) => {
    const file = join(await scratchDirectory(t), 'zeros.yaml')
    await writeFile(file, `[${'0,'.repeat(1_000_000)}0]`)
    const { status, stderr } = await finished(['validate', file], SMALL_HEAP, t)
    expect([status, stderr]).toEqual([1, expect.stringMatching(/zeros\.yaml: error: reading it takes more than \d+ MiB of memory\n$/)])
  })

  test('leaves a running service alive, on the last good bundle', async (t) => {
    const path = join(await scratchDirectory(t), 'bundle.yaml')
    await replaceFile(path, burstYaml(1, 100))
    const cli = await serving({ EDGE_CONFIG_FILE: path, ...SMALL_HEAP }, [], t)
    for (const [i, [, text]] of [WITHOUT_END[0]!, WITHOUT_END.at(-1)!].entries()) {
      await replaceFile(path, text)
      await until(() => cli.logged('bundle_refused').length === i + 1 || cli.process.exitCode !== null || cli.process.signalCode !== null)
    }
    const fields = [
      ['X-Original-Method', 'GET'],
      ['X-Original-URI', '/'],
    ] as const
    const answer = await ask(cli.port, 'POST', '/v1/decision', fields)
    expect(answer).toMatchObject({ status: 200, headers: { 'ratelimit-limit': '100' } })
  })
})

test('a list of addresses that is one endless line is refused, and the service lives on', async (t) => {
  const path = join(await scratchDirectory(t), 'exits.txt')
  await writeFile(path, '/'.repeat(30_000_000))
  const cli = await serving({ EDGE_TOR_EXITS_FILE: path, ...SMALL_HEAP }, [], t)
  expect(await untilLogged(cli, 'ip_file_refused')).toMatchObject([{ path, problem: 'cannot read line 1' }])
  expect((await ask(cli.port, 'GET', '/livez')).status).toBe(200)
})

/** Ten times the same, so many times over. */
function laughs(levels: number): string {
  const level = (i: number): string =>
    `  l${i}: &l${i} [${Array(10)
      .fill(i === 0 ? 'ha' : `*l${i - 1}`)
      .join(', ')}]`
  return Array.from({ length: levels }, (_, i) => level(i)).join('\n')
}
