// Counts what it takes to read texts of some length and of twice that length: blocks of code that V8 has run, those of libraries too, and
// characters and bytes that built-in functions have looked at or copied. Times are no part of it.
//
// argv    a length, and a module that exports `readers`: by name, a function of a length that makes a text and returns what reads it
// stdout  { name: [steps for the length, steps for twice the length] }
import { Session } from 'node:inspector'

const session = new Session()
session.connect()
// Before anything else is loaded: code that was compiled without counters has none.
post('Profiler.enable')
post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })

let builtIn = 0
const searched = (length, from, at) => (at < 0 ? Math.max(0, length - from) : at - from + 1)
count(String.prototype, 'indexOf', (text, [, from = 0], at) => searched(text.length, from, at))
count(String.prototype, 'includes', (text) => text.length)
count(String.prototype, 'lastIndexOf', (text, [, from = text.length], at) => Math.min(from, text.length) - at)
for (const name of ['split', 'trim', 'toLowerCase']) count(String.prototype, name, (text) => text.length)
countExpressions()
for (const name of ['shift', 'unshift', 'splice', 'includes', 'indexOf']) count(Array.prototype, name, (list) => list.length)
count(Buffer.prototype, 'indexOf', (bytes, [, from = 0], at) => searched(bytes.length, from, at))
count(Buffer.prototype, 'copy', (_, __, copied) => copied)
count(Buffer.prototype, 'toString', (_, __, text) => text.length)
count(Buffer, 'concat', (_, __, bytes) => bytes.length)
count(JSON, 'parse', (_, [text]) => String(text).length)

const [length, module] = [Number(process.argv[2]), process.argv[3]]
const { readers } = await import(module)
const result = {}
for (const [name, reader] of Object.entries(readers)) result[name] = [stepsOf(reader(length)), stepsOf(reader(2 * length))]
process.stdout.write(JSON.stringify(result))

function stepsOf(read) {
  post('Profiler.takePreciseCoverage') // begins anew
  builtIn = 0
  read()
  const seen = builtIn
  let blocks = 0
  for (const { functions } of post('Profiler.takePreciseCoverage').result) {
    for (const { ranges } of functions) for (const range of ranges) blocks += range.count
  }
  return blocks + seen
}

function count(owner, name, cost) {
  const original = owner[name]
  owner[name] = function (...args) {
    const result = Reflect.apply(original, this, args)
    builtIn += cost(this, args, result)
    return result
  }
}

/** From where it begins to where its match ends. `test`, `replace` and the others come by here. */
function countExpressions() {
  const { exec } = RegExp.prototype
  RegExp.prototype.exec = function (text) {
    const from = this.global || this.sticky ? this.lastIndex : 0
    const match = Reflect.apply(exec, this, [text])
    if (match !== null) builtIn += match.index + match[0].length - from + 1
    else if (!this.sticky) builtIn += String(text).length - from + 1
    return match
  }
}

/** Sessions with their own thread answer at once. */
function post(method, parameters) {
  let answer
  session.post(method, parameters, (error, result) => {
    if (error !== null) throw new Error(error.message)
    answer = result
  })
  return answer
}
