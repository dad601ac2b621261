import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { replaceFile } from '../../test/support/bundles/bundle-file.ts'
import { HeldNow } from '../../test/support/service/held-now.ts'
import { scratchDirectory } from '../../test/support/service/running.ts'
import type { IpFile } from './ip-databases.ts'
import { followIpFiles, type IpFileListener } from './ip-files.ts'

const LINES = Array.from({ length: 3000 }, (_, i) => `10.0.${i >>> 8}.${i & 255},type ${i % 50}`)

test('a long list is read a little at a time, and what else there is to do is done in between', async () => {
  const { path, turns } = await longList()
  const heard: (IpFile | string | undefined | number)[] = []
  const files = followIpFiles({ geoip: undefined, ipType: path, torExits: undefined }, listenerOf(heard))
  await files.started
  files.stop()
  expect(heard.slice(-2)).toEqual([{ path, data: { kind: 'ipType', networks: expect.anything() } }, LINES.length])
  // About twenty lines a turn; one more where tenths add up to a little less than their sum.
  expect(turns.count).toBeGreaterThan(LINES.length / 25)
})

test('one that is being read when the service stops is left alone', async () => {
  const { path, turns } = await longList()
  const heard: (IpFile | string | undefined | number)[] = []
  const files = followIpFiles({ geoip: undefined, ipType: path, torExits: undefined }, listenerOf(heard))
  turns.onTurn = () => {
    if (turns.count === 5) files.stop()
  }
  await files.started
  expect([turns.count < 10, heard.length]).toEqual([true, 1])
})

test('services of one process share the countries that come with the package', async () => {
  const heard: (IpFile | string | undefined | number)[] = []
  for (let services = 0; services < 2; services++) {
    const files = followIpFiles({ geoip: undefined, ipType: undefined, torExits: undefined }, listenerOf(heard))
    await files.started
    files.stop()
  }
  const [first, second] = heard.map((file) => ((file as IpFile).data as { bytes: SharedArrayBuffer }).bytes)
  expect(first!.byteLength).toBeGreaterThan(1_000_000)
  expect(second).toBe(first)
})

/** A file at rest, and the turns of the event loop that reading it takes, in each of which a tenth of a millisecond passes with each line. */
async function longList() {
  const path = join(await scratchDirectory(), 'types.csv')
  await replaceFile(path, LINES.join('\n'))
  new HeldNow(0.1)
  const turns = { count: 0, onTurn: () => {} }
  const nextTurn = setImmediate
  const spied = vi.spyOn(globalThis, 'setImmediate').mockImplementation(((run: () => void) => {
    turns.count++
    turns.onTurn()
    return nextTurn(run)
  }) as typeof setImmediate)
  onTestFinished(() => spied.mockRestore())
  return { path, turns }
}

function listenerOf(heard: (IpFile | string | undefined | number)[]): IpFileListener {
  return {
    onContent: (file) => void heard.push(file),
    onLoaded: (_path, entryCount) => void heard.push(entryCount),
    onProblem: (_path, problem) => void heard.push(problem),
  }
}
