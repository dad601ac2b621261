// Becomes program/load.js: how each process and thread of the program loads its files. `npm run build` runs the program and leaves the code
// that V8 has compiled beside them (scripts/code-cache.mjs); reading that takes V8 a fraction of the time that compiling takes.
'use strict'
const { existsSync, readFileSync, statSync } = require('node:fs')
const { enableCompileCache } = require('node:module')
const { join } = require('node:path')
const { Script } = require('node:vm')

// V8 checks its own version and flags, and no more. A Node of another make might lay out the same code differently.
const { version, platform, arch, execPath } = process
const CACHE = join(__dirname, 'cache', [version, platform, arch, statSync(execPath).size].join('-'))
/** Source maps are for Node's own loader, and so is the cache that NODE_COMPILE_CACHE asks for. */
const isOwnLoader = existsSync(CACHE) && !process.sourceMapsEnabled
/** Until V8 rejects it, because it runs with other flags than in the build. */
let isCacheUsed = isOwnLoader
const modules = new Map()
// Node 22 and later keep what they compile themselves. Here, because a folder that all users of a machine share would let one of them plant code;
// where this one is read-only, Node goes on without it.
if (!isOwnLoader) enableCompileCache?.(join(__dirname, 'cache', 'node'))

/** Runs a file of this folder once, and returns what it exports. All files are loaded here or all by Node: each must run only once. */
function load(name) {
  if (!isOwnLoader) return require(name)
  const known = modules.get(name)
  if (known !== undefined) return known.exports
  const filename = join(__dirname, name)
  const cachedData = isCacheUsed ? codeOf(name) : undefined
  // The files have no characters beyond ASCII: V8 takes twice the memory for a text that has one.
  const text = `(function (exports, require, module, __filename, __dirname) { ${readFileSync(filename, 'latin1')}\n})`
  // V8 keeps the name in the code that it has compiled, wherever the program is moved to: it is that of no folder.
  const script = new Script(text, { filename: `edge/${name.replace('./', '')}`, cachedData })
  if (script.cachedDataRejected) isCacheUsed = false
  const module = { exports: {} }
  modules.set(name, module)
  script.runInThisContext()(module.exports, requireFromProgram, module, filename, __dirname)
  return module.exports
}

function requireFromProgram(name) {
  return name.startsWith('./') ? load(name) : require(name)
}

/** Undefined for what no start of the build has loaded. */
function codeOf(name) {
  try {
    return readFileSync(join(CACHE, `${name}.code`))
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}

module.exports = { load, CACHE }
