// Runs regular expressions under V8's own count of backtracks. To be started with
// --enable-experimental-regexp-engine, to tell which expressions the count works for, and the flags of `backtrack-flags.ts`.
//
// stdin   { length, work: [{ sources: a spelling, and others that do as much work, texts: [{ before, unit }] }] }: a text is `before`, then
//         `unit` repeated to this length, then a character that nothing expects
// stdout  "expression 3", "text 7" before each, "unmeasured 3" for what cannot be counted, and V8's lines between them
import { readFileSync, writeSync } from 'node:fs'

const { length, work } = JSON.parse(readFileSync(0, 'utf8'))
for (const [number, { sources, texts }] of work.entries()) {
  const source = sources.find(isMeasurable)
  writeSync(1, `${source === undefined ? 'unmeasured' : 'expression'} ${number}\n`)
  if (source === undefined) continue
  const expression = new RegExp(source)
  for (const [i, { before, unit }] of texts.entries()) {
    writeSync(1, `text ${i}\n`)
    expression.test(`${before}${unit.repeat(length / unit.length)}\0`)
  }
}

function isMeasurable(source) {
  try {
    return new RegExp(source, 'l').test('') !== undefined
  } catch {
    return false
  }
}
