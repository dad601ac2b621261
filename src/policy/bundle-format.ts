export type BundleFormat = 'json' | 'yaml'

/** YAML by its ending, as the file name says; everything else is JSON. */
export function formatOf(fileName: string): BundleFormat {
  return /\.ya?ml$/i.test(fileName) ? 'yaml' : 'json'
}
