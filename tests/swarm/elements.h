// Tensors of the swarm's keys.

#ifndef TENSORKV_TESTS_SWARM_ELEMENTS_H_
#define TENSORKV_TESTS_SWARM_ELEMENTS_H_

#include <optional>
#include <string>

#include "contract/requests.h"
#include "service/store/snapshot.h"
#include "tensor/tensor.h"
#include "tests/swarm/key_ledger.h"
#include "tests/swarm/random.h"

namespace tensorkv::swarm {

// A tensor of the shape that every key has.
Tensor TensorOf(const Elements& elements, DType dtype);
// REQUIRES for these: the tensor is f32, i32 or bf16, and has so many elements.
double ElementOf(const Tensor& tensor, int i);
// Returns the element, an f32, as it is in that dtype: bf16 or, as itself,
// unknown.
double Converted(DType dtype, double element);
Elements ElementsOf(const Tensor& tensor);

// A tensor with memory of its own.
Tensor CopyOf(const Tensor& tensor);

// With memory of their own, as if they had been read from a disk.
std::vector<KeySnapshot> CopiesOf(std::vector<KeySnapshot> keys);

// Row ids: some rows of a key, in any order, repeated or not.
RefPtr<const RowIds> ChooseRows(Random& random);

// Adds an entry that brings some rows, of multiples of `unit`, and says in
// `contribution` what they are together.
void AddRows(Random& random, const std::string& key, DType dtype, int unit,
             PushRequest& request, Contribution& contribution);

// The same of all rows, in two bits for each element.
void AddEncoded(Random& random, const std::string& key, int unit,
                PushRequest& request, Contribution& contribution);

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_ELEMENTS_H_
