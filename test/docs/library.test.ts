import { execFile } from 'node:child_process'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { scratchDirectory } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { codeBlocks, ROOT, readText } from './markdown.ts'

const guide = readText('docs/library.md')
const [FIRST, EXAMPLE, EXPLAINED, ADDRESSES, IP_FACTS] = codeBlocks(guide, 'js') as [string, string, string, string, string]

const suite = thisSuite()
/** What each program prints. */
let printed: readonly string[]

beforeAll(async () => {
  printed = await outputs([FIRST, readText('examples/library.mjs'), EXPLAINED, IP_FACTS, `${ADDRESSES}\n${ADDRESSED}`])
})

test('the first snippet of docs/library.md prints what its comment says', () => {
  const promised = /console\.log\(.*\) \/\/ (.*)/.exec(FIRST)![1]
  expect(printed[0]).toBe(`${promised}\n`)
})

test('docs/library.md shows examples/library.mjs as it is', () => {
  expect(EXAMPLE).toBe(readText('examples/library.mjs'))
})

test('examples/library.mjs prints what docs/library.md says', () => {
  expect(printed[1]).toBe(codeBlocks(guide, 'text')[0])
})

test('what docs/library.md explains, looks up and resets is printed as it says', () => {
  expect(printed[2]).toBe(codeBlocks(guide, 'text')[1])
})

test('the IP facts of docs/library.md are taken as they are written', () => {
  expect(printed[3]).toBe('')
})

/** Asks the server of the guide, over its own connection. */
const ADDRESSED = `
import { get } from 'node:http'
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const { statusCode } = await new Promise((resolve) => get({ port: server.address().port, agent: false }, resolve))
console.log(statusCode, engine.stats().occupiedSlots)
server.close()
`

test('the server of docs/library.md counts the address that asks it', () => {
  expect(printed[4]).toBe('200 1\n')
})

const MARK = 'end-of-program\n'

/** What programs print that have the built package installed. One process runs them in a row: most of its time goes into loading the package. */
async function outputs(programs: readonly string[]): Promise<string[]> {
  const directory = await scratchDirectory(suite)
  await mkdir(join(directory, 'node_modules'))
  await symlink(ROOT, join(directory, 'node_modules/edge-decision-service'))
  const runs = programs.map(async (text, i) => {
    const path = join(directory, `program-${i}.mjs`)
    await writeFile(path, text)
    return `await import(${JSON.stringify(pathToFileURL(path))})\nprocess.stdout.write(${JSON.stringify(MARK)})\n`
  })
  await writeFile(join(directory, 'all.mjs'), (await Promise.all(runs)).join(''))
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(directory, 'all.mjs')], { cwd: ROOT })
  expect(stderr).toBe('')
  return stdout.split(MARK).slice(0, -1)
}
