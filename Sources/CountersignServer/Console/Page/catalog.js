// The catalog: its tiers, and the names of its products.

import {el} from './elements.js'
import {identifier} from './numbers.js'
import {ask} from './service.js'

let names = new Map()

/// Reads the catalog, and knows its names from then on; no tiers where the service does not tell them.
export async function readTiers() {
  try {
    const {plans} = await ask('GET', 'v1/plans')
    names = new Map(plans.flatMap(({products = []}) => products.map((one) => [one.product_id, one.name])))
    return plans
  } catch { return [] }
}

/// The name of a product; its ID where the catalog has none.
export const productName = (id) => names.get(id) || id

/// A product's name with its ID, for a cell or a list. CSV has the ID alone.
export const product = (id) => productName(id) === id ? identifier(id)
  : [el('span', {class: 'named'}, productName(id)), el('span', {class: 'soft id'}, identifier(id))]
