import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { describeWithProc, memoryKib, untilCalm } from '../support/service/process-facts.ts'
import { scratchDirectory, serving } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const WORKERS = 6
/** As far apart as can be: each address takes about 1.3 KB of the map. */
const EXITS = Array.from({ length: 40_000 }, (_, i) =>
  createHash('md5')
    .update(String(i))
    .digest('hex')
    .replace(/(.{4})(?=.)/g, '$1:'),
)
const MAP_MIB = 50

describeWithProc('a list of networks', () => {
  test('is in memory once, however many workers look up in it', async (t) => {
    const path = join(await scratchDirectory(t), 'exits.txt')
    await replaceFile(path, '203.0.113.7\n')
    const cli = await serving({ EDGE_TOR_EXITS_FILE: path, EDGE_WORKERS: String(WORKERS) }, [], t)
    await until(() => cli.logged('ip_file_loaded').length === 1)
    await untilCalm(cli)
    const before = await memoryKib(cli, 'VmRSS')
    await replaceFile(path, EXITS.join('\n'))
    await until(() => cli.logged('ip_file_loaded').length === 2)
    await untilCalm(cli)
    const grownMib = ((await memoryKib(cli, 'VmRSS')) - before) / 1024
    expect(grownMib).toBeGreaterThan(MAP_MIB / 2) // or the list was too short to tell
    // The map as it was built and as it is shared, and the text that it came from.
    expect(grownMib).toBeLessThan(MAP_MIB * 4)
  })
})
