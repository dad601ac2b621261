import { execFileSync } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { KeptCounters } from '../../support/state/kept-counters.ts'

/** Where no counters can be kept, whoever asks: root too. */
const PLACES: readonly (readonly [kind: string, place: (kept: KeptCounters) => string, problem: string])[] = [
  [
    'a directory that is not there',
    ({ stateDirectory }) => join(stateDirectory, 'none', 'counters'),
    'cannot reach *: no such file or directory',
  ],
  ['below a file', ({ bundlePath }) => join(bundlePath, 'counters'), 'cannot reach *: not a directory'],
  ['a directory', ({ stateDirectory }) => stateDirectory, 'cannot read *: it is not a regular file'],
  ['a pipe', ({ stateDirectory }) => pipeIn(stateDirectory), 'cannot read *: it is not a regular file'],
  ['a name that is too long', ({ stateDirectory }) => join(stateDirectory, 'n'.repeat(256)), 'cannot reach *: name too long'],
]

describe.concurrent('a state file that cannot be one is refused at the start', () => {
  test.for(PLACES)('%s', async ([, place, problem], t) => {
    const kept = await KeptCounters.of(t)
    const path = place(kept)
    const before = await readdir(kept.stateDirectory)
    await expect(kept.run({ EDGE_STATE_FILE: path })).rejects.toThrow(problem.replace('*', path))
    // Nothing is left behind, no socket either.
    expect(await readdir(kept.stateDirectory)).toEqual(before)
    expect(await readdir(join(kept.stateDirectory, '..'))).toEqual(['bundle.json', 'state'])
  })

  test.skipIf(process.platform !== 'linux')('a file system that takes no files', async (t) => {
    const kept = await KeptCounters.of(t)
    await expect(kept.run({ EDGE_STATE_FILE: '/proc/counters' })).rejects.toThrow(/^cannot lock \/proc\/counters: \w/)
  })
})

function pipeIn(directory: string): string {
  const path = join(directory, 'pipe')
  execFileSync('mkfifo', [path])
  return path
}
