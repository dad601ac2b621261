export type BundleFormat = 'json' | 'yaml'

/** YAML for .yaml and .yml; everything else is JSON. */
export function formatOf(fileName: string): BundleFormat {
  return /\.ya?ml$/i.test(fileName) ? 'yaml' : 'json'
}
