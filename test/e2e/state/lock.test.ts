import { readdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Cli } from '../../support/service/cli.ts'
import { serving } from '../../support/service/running.ts'
import { BURST, KeptCounters, take } from '../../support/state/kept-counters.ts'
import { until } from '../../support/until.ts'

describe.concurrent('one process at a time on a state file', { timeout: 60_000 }, () => {
  test('a second is refused and told who has it, by whatever name it comes, and the first goes on', async (t) => {
    const kept = await KeptCounters.of(t)
    const link = join(kept.stateDirectory, '..', 'link')
    await symlink(kept.statePath, link)
    const directoryLink = join(kept.stateDirectory, '..', 'elsewhere')
    await symlink(kept.stateDirectory, directoryLink)
    const first = await kept.serve({ EDGE_STATE_FILE: link })
    await take(first, 3)

    const inUse = new RegExp(`^EDGE_STATE_FILE: ${kept.statePath} is in use by process ${first.process.pid} on \\S+$`)
    for (const name of [kept.statePath, link, join(directoryLink, 'counters')]) {
      expect(await kept.refusal({ EDGE_STATE_FILE: name })).toMatch(inUse)
    }

    expect(await take(first)).toBe(BURST - 4)
    expect(await first.stop()).toBe(0)
    // The link is still one, and leads to what was saved.
    const second = await kept.serve()
    expect(await take(second)).toBe(BURST - 5)
  })

  test('also when somebody has taken its lock away: with the next save there is another', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await kept.serve()
    const locks = async (): Promise<string[]> => (await readdir(kept.stateDirectory)).filter((name) => name.includes('.lock-'))
    const [lost] = await locks()
    await rm(join(kept.stateDirectory, lost!))
    await until(async () => (await locks()).some((name) => name !== lost && !name.endsWith('~')))
    expect(await kept.refusal()).toContain(`is in use by process ${first.process.pid} on `)
    expect(first.logged('state_not_saved')).toEqual([])
  })

  test('of two that start at the same moment one serves, and the other says why it does not', async (t) => {
    const kept = await KeptCounters.of(t)
    const env = { EDGE_CONFIG_FILE: kept.bundlePath, EDGE_STATE_FILE: kept.statePath, EDGE_WORKERS: '1' }
    const both = await Promise.all([serving(env, [], t), serving(env, [], t)])
    const isUp = (cli: Cli): boolean => cli.stdout.includes('listens')
    expect(both.filter(isUp)).toHaveLength(1)
    const [winner, loser] = isUp(both[0]) ? both : [both[1], both[0]]
    expect(await loser.exited).toBe(1)
    expect(loser.stderr).toContain(`is in use by process ${winner.process.pid} on `)
    expect(await take(winner)).toBe(BURST - 1)
  })
})
