// Becomes program/load.js, which loads the files of each process and thread of the program. `npm run build` runs the program and stores the code
// that V8 has compiled beside them (scripts/code-cache.mjs); reading it takes V8 a fraction of the time that compiling takes.
'use strict'
const { existsSync, readFileSync, statSync } = require('node:fs')
const { enableCompileCache } = require('node:module')
const { join } = require('node:path')
const { Script } = require('node:vm')

// V8 checks only its own version and flags. Another build of Node might lay out the same code differently.
const { version, platform, arch, execPath } = process
const CACHE = join(__dirname, 'cache', [version, platform, arch, statSync(execPath).size].join('-'))
/** With source maps enabled, Node's own loader is used, which supports them; it also supports the cache that NODE_COMPILE_CACHE asks for. */
const isOwnLoader = existsSync(CACHE) && !process.sourceMapsEnabled
/** True until V8 rejects the cache, because it runs with other flags than during the build. */
let isCacheUsed = isOwnLoader
const modules = new Map()
// Node 22 and later can cache what they compile. The cache is in this folder, because one that all users of a machine share would let one of them
// plant code. If this folder is read-only, Node goes on without a cache.
if (!isOwnLoader) enableCompileCache?.(join(__dirname, 'cache', 'node'))

/** Runs a file of this folder once and returns its exports. Either all files are loaded here or all by Node, because each must run only once. */
function load(name) {
  if (!isOwnLoader) return require(name)
  const known = modules.get(name)
  if (known !== undefined) return known.exports
  const filename = join(__dirname, name)
  const cachedData = isCacheUsed ? codeOf(name) : undefined
  // The files are pure ASCII, because V8 takes twice the memory for a text with any other character.
  const text = `(function (exports, require, module, __filename, __dirname) { ${readFileSync(filename, 'latin1')}\n})`
  // V8 keeps the name in the compiled code, and the program may be moved, so the name contains no folder of the machine.
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

/** Returns undefined for a file that the build's starts have not loaded. */
function codeOf(name) {
  try {
    return readFileSync(join(CACHE, `${name}.code`))
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}

module.exports = { load, CACHE }
