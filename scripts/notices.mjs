// Collects the notices that licences of third-party work require. `npm run build` writes them to program/, and `npm run notices` copies them
// from there to the checkout's own file.
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const { resolve } = createRequire(import.meta.url)

/** The country database, which becomes part of the program. */
export const COUNTRY_FILE = resolve('@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb')

/** Adds the folder of the package that a bundled module belongs to, unless the module is ours. */
export function notePackage(folders, moduleId) {
  // These are helper functions that the bundler itself adds to its output.
  const id = moduleId.startsWith('\0rolldown/') ? resolve('rolldown') : moduleId
  const [folder] = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id) ?? []
  if (folder !== undefined) folders.add(folder)
}

/** Returns all notices. Packages with the same text share it. */
export function noticesOf(folders) {
  const byText = new Map()
  for (const { name, text } of [...folders].map(licenceOf).sort((a, b) => (a.name < b.name ? -1 : 1)))
    byText.set(text, [...(byText.get(text) ?? []), name])
  const notices = [...byText].map(([text, names]) => `${names.join('\n')}\n\n${text}\n`)
  return [PREFACE, ...notices, countryData()].join(`\n${'-'.repeat(80)}\n\n`)
}

const PREFACE = `edge contains the work of others, under the licences below: code of packages in program/ and in the operators'
page, program/console/, and the country database, program/geo-whois-asn-country.mmdb.
`

function licenceOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  // Apache-2.0 section 4d: a NOTICE file must accompany the code.
  const files = [/^licen[cs]e(?:\.|$)/i, /^notice(?:\.|$)/i].flatMap((pattern) => readdirSync(folder).filter((file) => pattern.test(file)))
  const texts = files.sort().map((file) => textOf(join(folder, file)))
  return { name: `${name} ${version} (${license})`, text: texts.join('\n\n') || 'This package has no text of its licence.' }
}

function countryData() {
  const folder = dirname(COUNTRY_FILE)
  const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  return `${name} ${version} (CC-BY-4.0)

The country database geo-whois-asn-country of ip-location-db, https://github.com/sapics/ip-location-db, made from data of
the Number Resource Organization (NRO), https://www.nro.net/, under the Creative Commons Attribution 4.0 International
License, https://creativecommons.org/licenses/by/4.0/. ip-location-db has merged and converted the data; edge does not
change it. The package names CC0-1.0 as its licence; the data of the NRO needs this attribution all the same:

${textOf(join(folder, 'NRO_LICENSE'))}
`
}

function textOf(file) {
  return readFileSync(file, 'utf8').replaceAll('\r\n', '\n').trim()
}
