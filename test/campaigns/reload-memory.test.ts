import { join } from 'node:path'
import { expect, type TestContext, test } from 'vitest'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { bucketRule, bundle, burstYaml, policy } from '../support/bundles/bundles.ts'
import { Cli } from '../support/service/cli.ts'
import { ask } from '../support/service/http.ts'
import { describeWithProc, memoryKib, untilCalm } from '../support/service/process-facts.ts'
import { type Environment, scratchDirectory } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const RELOADS = 3
const POLICIES = 12_000
const TIMEOUT_MS = 900_000

describeWithProc(`${RELOADS} reloads of ${POLICIES} policies`, () => {
  test('never take more than three times the memory that the first one takes at rest', { timeout: TIMEOUT_MS }, async (t) => {
    const { restMib, peakMib } = await reloaded(t, {})
    expect(peakMib / restMib).toBeLessThan(3)
  })

  test('fit into heaps of 192 MiB a thread', { timeout: TIMEOUT_MS }, async (t) => {
    const { restMib, peakMib } = await reloaded(t, { NODE_OPTIONS: '--max-old-space-size=192' })
    expect(peakMib / restMib).toBeLessThan(3)
  })
})

describeWithProc('a text of 16 MiB that stands for far more', () => {
  test.for([
    ['bundle.yaml', `bundle_version: 2\npolicies: [${'0,'.repeat(8_000_000)}0]`],
    ['bundle.yaml', `bundle_version: 2\npolicies: [${'{},'.repeat(5_000_000)}{}]`],
    ['bundle.json', `{"bundle_version":2,"policies":[${'{},'.repeat(5_000_000)}{}]}`],
    ['bundle.json', `{"bundle_version":2,"policies":[],"metadata":{"z":[${'[],'.repeat(5_000_000)}[]]}}`],
  ] as const)('in %s is refused, and the service decides on', { timeout: TIMEOUT_MS }, async ([name, text], t) => {
    const path = join(await scratchDirectory(t), name)
    await replaceFile(path, name.endsWith('yaml') ? burstYaml(1, 100) : JSON.stringify(policies(1, 1)))
    const cli = await starting(path, {}, t)
    await replaceFile(path, text)
    await until(() => cli.logged('bundle_refused').length === 1 || cli.process.exitCode !== null || cli.process.signalCode !== null)
    expect((await ask(cli.port, 'GET', '/readyz')).status).toBe(200)
    expect(await memoryKib(cli, 'VmHWM')).toBeLessThan(1.5 * 1024 ** 2)
  })
})

interface Reloaded {
  /** After the first bundle, when nothing moves any more. */
  readonly restMib: number
  readonly peakMib: number
}

async function reloaded(t: TestContext, env: Environment): Promise<Reloaded> {
  const path = join(await scratchDirectory(t), 'bundle.json')
  const cli = await starting(path, env, t)
  const applied = (): number => cli.logged('bundle_applied').length
  let restMib = 0
  for (let version = 1; version <= RELOADS + 1; version++) {
    await replaceFile(path, JSON.stringify(policies(version, POLICIES)))
    await until(() => applied() === version || cli.process.exitCode !== null || cli.process.signalCode !== null)
    expect([applied(), cli.logged('worker_died')]).toEqual([version, []])
    if (version > 1) continue
    await untilCalm(cli)
    restMib = (await memoryKib(cli, 'VmRSS')) / 1024
  }
  return { restMib, peakMib: (await memoryKib(cli, 'VmHWM')) / 1024 }
}

async function starting(path: string, env: Environment, t: TestContext): Promise<Cli> {
  const cli = await Cli.serve({ EDGE_CONFIG_FILE: path, EDGE_WORKERS: '2', ...env })
  t.onTestFinished(async () => {
    cli.process.kill('SIGKILL')
    await cli.exited
  })
  return cli
}

/** Some 300 bytes each. */
function policies(version: number, count: number): object {
  const items = Array.from({ length: count }, (_, i) => {
    const selector = { pathPrefix: `/tenant-${i}/area`, methods: ['GET', 'POST'] }
    const rule = bucketRule(`rule-${i}`, ['header:x-tenant-id', 'ip:address'], 10 + (version % 7), 1 + (i % 50))
    return policy(`policy-number-${i}`, { mode: 'enforce', selector, rules: [rule] })
  })
  return bundle(version, ...items)
}
