import { readFile, rename, stat, writeFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { BURST, decide, HARDLY_ANY, KeptCounters, take } from '../../support/state/kept-counters.ts'
import { sectionBytes, sectionsOf, withSections } from '../../support/state/sections.ts'
import { until } from '../../support/until.ts'

const RULE = { policy: 'p', rule: 'r' }
const ALICE = { ...RULE, values: { 'header:x-caller': 'alice' } }
/** The type of their sections. */
const OVERRIDES = 502

describe.concurrent('overrides', () => {
  test('raise a limit once, however often the service is restarted', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await ran(kept)
    await take(first.cli, BURST)
    expect((await decide(first.cli, 'X-Caller', 'alice')).status).toBe(429)
    await first.operator.override({ ...ALICE, multiply: 3 })
    expect(await take(first.cli)).toBe(2 * BURST - 1)
    await first.cli.stop()
    for (const left of [2 * BURST - 2, 2 * BURST - 3]) {
      const { cli } = await ran(kept)
      expect(await take(cli)).toBe(left)
      await cli.stop()
    }
    // Bob was last seen before the override, and meets it after a restart.
    const { cli, operator } = await ran(kept)
    await take(cli, BURST - 10, 'bob')
    await operator.override({ ...RULE, all: true, set: { burst: 2 * BURST } })
    await cli.stop()
    const last = await ran(kept)
    expect(await take(last.cli, 1, 'bob')).toBe(BURST + 10 - 1)
  })

  test('wait for a bundle that has their rule', async (t) => {
    const kept = await KeptCounters.of(t)
    const { cli, operator } = await ran(kept)
    const block = await operator.override({ ...ALICE, block: true })
    const publish = async (version: number, ...rules: object[]): Promise<void> => {
      await kept.publish(bundle(version, policy('p', { rules })))
      await until(() => cli.logged('bundle_applied').length === version)
    }
    await publish(2, bucketRule('other', ['header:x-caller'], BURST, HARDLY_ANY))
    expect(await operator.overrides()).toEqual([{ ...block, in_force: false, before: null, after: null }])
    expect((await decide(cli, 'X-Caller', 'alice')).status).toBe(200)
    await publish(3, bucketRule('r', ['header:x-other'], BURST, HARDLY_ANY))
    expect(await operator.overrides()).toEqual([{ ...block, in_force: false, before: null, after: null }])
    await publish(4, bucketRule('r', ['header:x-caller'], 5, HARDLY_ANY))
    expect(await operator.overrides()).toEqual([{ ...block, before: expect.any(Object) }])
    expect((await decide(cli, 'X-Caller', 'alice')).status).toBe(403)
    expect(cli.logged('override_ended')).toEqual([])
  })

  test('that cannot be saved are in force and say so, and are durable when they can be', async (t) => {
    const kept = await KeptCounters.of(t)
    const { cli, operator } = await ran(kept)
    await until(() =>
      stat(kept.statePath).then(
        () => true,
        () => false,
      ),
    )
    await rename(kept.stateDirectory, `${kept.stateDirectory}-away`)
    const block = await operator.override({ ...ALICE, block: true })
    expect(block).toMatchObject({ durable: false, in_force: true })
    expect((await decide(cli, 'X-Caller', 'alice')).status).toBe(403)
    expect(await operator.overrides()).toEqual([block])
    expect(cli.logged('state_not_saved')).toMatchObject([{ reason: expect.stringContaining('no such file or directory') }])
    await rename(`${kept.stateDirectory}-away`, kept.stateDirectory)
    const other = await operator.override({ ...RULE, all: true, block: true })
    expect(await operator.overrides()).toEqual([{ ...block, durable: true }, other])
    expect(other.durable).toBe(true)
  })

  test('that cannot be read are left out; counters and all others go on, and those of a newer program stay in the file', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await ran(kept)
    await take(first.cli, 5)
    const block = await first.operator.override({ ...RULE, values: { 'header:x-caller': 'bob' }, block: true })
    await first.cli.stop()
    const newer = '{"v":2,"what":"is to come"}'
    const damaged = Buffer.from(`{"v":1}\nnonsense\n\n${newer}\n\xff\xfe`, 'latin1')
    await writeFile(kept.statePath, withSections(await readFile(kept.statePath), sectionBytes(OVERRIDES, damaged)))

    const second = await ran(kept)
    expect(second.cli.logged('overrides_unreadable')).toMatchObject([{ overrides: 4 }])
    expect(await second.operator.problems()).toEqual(['overrides_unreadable'])
    expect(second.cli.logged('state_set_aside')).toEqual([])
    expect(await take(second.cli)).toBe(BURST - 6)
    expect(await second.operator.overrides()).toEqual([block])
    await second.cli.stop()
    const sections = sectionsOf(await readFile(kept.statePath)).filter(({ type }) => type === OVERRIDES)
    expect(sections.map(({ bytes }) => bytes.toString('latin1')).join('')).toContain(`${newer}\n`)
  })
})

async function ran(kept: KeptCounters): Promise<{ cli: Edge; operator: Operator }> {
  const cli = await kept.run(ADMIN_ENV)
  return { cli, operator: new Operator(cli.adminPort) }
}
