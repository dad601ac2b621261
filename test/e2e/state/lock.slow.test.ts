import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Cli } from '../../support/service/cli.ts'
import { serving } from '../../support/service/running.ts'
import { BURST, KeptCounters, take } from '../../support/state/kept-counters.ts'

describe.concurrent('one process at a time on a state file', () => {
  test('a second is refused and told who has it, by whatever name it comes, and the first goes on', async (t) => {
    const kept = await KeptCounters.of(t)
    const link = join(kept.stateDirectory, '..', 'link')
    await symlink(kept.statePath, link)
    const directoryLink = join(kept.stateDirectory, '..', 'elsewhere')
    await symlink(kept.stateDirectory, directoryLink)
    const first = await kept.serve({ EDGE_STATE_FILE: link })
    await take(first, 3)

    const inUse = new RegExp(`^EDGE_STATE_FILE: ${kept.statePath} is in use by process ${first.process.pid} on \\S+$`)
    expect(await kept.refusal()).toMatch(inUse)
    for (const name of [link, join(directoryLink, 'counters')]) {
      await expect(kept.run({ EDGE_STATE_FILE: name })).rejects.toThrow(`${kept.statePath} is in use by process ${first.process.pid} on `)
    }

    expect(await take(first)).toBe(BURST - 4)
    expect(await first.stop()).toBe(0)
    // The link is still one, and leads to what was saved.
    expect(await take(await kept.run())).toBe(BURST - 5)
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
