import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { expectNonsenseRefused, NONSENSE } from '../support/bundles/nonsense.ts'
import type { Cli } from '../support/service/cli.ts'
import { finished, scratchDirectory } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'

describe.for(['bundle.json', 'bundle.yaml'])('edge validate on %s', (name) => {
  const cases = NONSENSE.filter(([, file]) => file === name).map(([what, , content], i) => ({ what, content, file: `${i}-${name}` }))
  const owner = thisSuite()
  let directory: string
  let cli: Cli & { status: number }
  // One process for all of it, each file twice: what one leaves behind must not spoil the next.
  beforeAll(async () => {
    directory = await scratchDirectory(owner)
    for (const { file, content } of cases) await writeFile(join(directory, file), content)
    const paths = cases.map(({ file }) => join(directory, file))
    cli = await finished(['validate', ...paths, ...paths], {}, owner)
  })

  test('answers 1 and calls none of them ok', () => {
    expect([cli.status, cli.stdout]).toEqual([1, ''])
    const lines = cli.stderr.split('\n').slice(0, -1)
    expect(lines.filter((line) => !line.startsWith(directory))).toEqual([])
  })

  test.for(cases)('refuses $what, as often as it is asked', ({ file }) => {
    // A colon follows, or the line and column.
    const prefix = `${join(directory, file)}:`
    const lines = cli.stderr.split('\n').filter((line) => line.startsWith(prefix))
    expect(lines.length).toBeGreaterThanOrEqual(2)
    expect(lines.slice(lines.length / 2)).toEqual(lines.slice(0, lines.length / 2))
    expect(lines.filter((line) => line.length > prefix.length + 520)).toEqual([])
  })
})

test.for(['bundle.json', 'bundle.yaml'] as const)(
  'a running service refuses all of it in %s, one after the other, and decides on',
  (name) => expectNonsenseRefused(name),
)
