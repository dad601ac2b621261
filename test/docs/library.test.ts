import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { codeBlocks, ROOT, readText } from './markdown.ts'

const guide = readText('docs/library.md')

test('the first snippet of docs/library.md prints what its comment says', async () => {
  const [snippet] = codeBlocks(guide, 'js')
  const promised = /console\.log\(.*\) \/\/ (.*)/.exec(snippet!)![1]
  expect(await runText(snippet!)).toEqual({ stdout: `${promised}\n`, stderr: '' })
})

test('docs/library.md shows examples/library.mjs as it is', () => {
  expect(codeBlocks(guide, 'js')[1]).toBe(readText('examples/library.mjs'))
})

test('examples/library.mjs prints what docs/library.md says', async () => {
  expect(await run('examples/library.mjs')).toEqual({ stdout: codeBlocks(guide, 'text')[0], stderr: '' })
})

test('what docs/library.md explains, looks up and resets is printed as it says', async () => {
  expect(await runText(codeBlocks(guide, 'js')[2]!)).toEqual({ stdout: codeBlocks(guide, 'text')[1], stderr: '' })
})

test('the IP facts of docs/library.md are taken as they are written', async () => {
  expect(await runText(codeBlocks(guide, 'js')[3]!)).toEqual({ stdout: '', stderr: '' })
})

/** In a process of its own, on the built package, as a user's program would. */
function run(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(process.execPath, args, { cwd: ROOT })
}

function runText(program: string): Promise<{ stdout: string; stderr: string }> {
  return run('--input-type=module', '--eval', program)
}
