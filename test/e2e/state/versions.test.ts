import { readFile, writeFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { BURST, KeptCounters, take } from '../../support/state/kept-counters.ts'
import { sectionBytes, sectionsOf, withSections } from '../../support/state/sections.ts'
import { SAVED_BY_SERVICE_0_1, version1Complaint } from '../../support/state/version-1.ts'

describe.concurrent('over a change of version', () => {
  test('counters that edge 0.1 saved go on, and what is saved then is foreign to it', async (t) => {
    const kept = await KeptCounters.of(t, bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-caller'], BURST, 1e-9)] })))
    await writeFile(kept.statePath, SAVED_BY_SERVICE_0_1)
    expect(version1Complaint(SAVED_BY_SERVICE_0_1)).toBe(undefined)
    const first = await kept.run()
    expect(await untilLogged(first, 'state_loaded')).toMatchObject([{ counters: 2, saved_at: '2026-11-15T22:24:59.952Z' }])
    expect([await take(first), await take(first, 1, 'bob'), await take(first, 1, 'carol')]).toEqual([57, 98, 99])
    await first.stop()

    expect(version1Complaint(await readFile(kept.statePath))).toBe('its format is version 2, and this program knows version 1')
    const second = await kept.run()
    expect([await take(second), await take(second, 1, 'bob'), await take(second, 1, 'carol')]).toEqual([56, 97, 98])
  })

  test('what a newer program has saved besides is still there when this one has run', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await kept.run()
    await take(first, 5)
    await first.stop()
    const newer = [sectionBytes(100, Buffer.alloc(96, 7)), sectionBytes(300, Buffer.from('what is to come'))]
    await writeFile(kept.statePath, withSections(await readFile(kept.statePath), ...newer))

    for (const left of [BURST - 6, BURST - 7]) {
      const cli = await kept.run()
      expect(cli.logged('state_set_aside')).toEqual([])
      expect(await take(cli)).toBe(left)
      await cli.stop()
      const sections = sectionsOf(await readFile(kept.statePath))
      expect(sections.filter(({ type }) => type === 100 || type === 300).map(({ bytes }) => bytes)).toEqual(newer)
    }
  })
})
